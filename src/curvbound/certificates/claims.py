"""From a posterior to claims: Monte Carlo with a seed nobody can shop for, and the bounds."""

import copy
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from curvbound.batches import place
from curvbound.bounds import (
    Constant,
    DeltaLedger,
    error_rate,
    kl_inverse,
    pac_bayes_kl,
    single_draw_kl,
)
from curvbound.certificates.record import Claim, MonteCarlo, Union
from curvbound.datasets import Examples
from curvbound.errors import CurvboundError
from curvbound.gaussians import ErrorCounts, Gaussian, NoisyNetwork, count_errors, errors_of
from curvbound.outputs import logits_of

__all__ = [
    "CHUNKS",
    "CONSTANT",
    "OBSERVATIONS",
    "PROBES",
    "Evaluated",
    "RandomisedNetwork",
    "batches_of",
    "content_seed",
    "counted",
    "drawn_network",
    "drawn_weights",
    "evaluate_claims",
    "looseness",
    "mistakes",
    "outputs_of",
    "passes_over",
    "predictions",
    "split_delta",
    "with_weights",
]

CONSTANT: Constant = "exact"
"""Maurer's constant xi(n) itself: half a nat less than 2 sqrt(n), just as valid."""

OBSERVATIONS = 200_000
"""Least number of Bernoulli observations behind a certified empirical risk."""

MOST_PASSES = 2_000
"""So that a handful of examples, which prove little anyway, do not take forever."""

CHUNKS = {"example": 1000, "batch": 32}
"""Examples evaluated together. The noise is keyed by chunks, so this is part of the format."""

PROBES = 32
"""Inputs that show how a network uses its layers; two of them must differ."""


@dataclass(frozen=True)
class Evaluated:
    """The claims about one posterior and how its risk was measured."""

    claims: list[Claim]
    monte_carlo: MonteCarlo
    drawn_errors: int


def content_seed(*parts: str) -> int:
    """A seed that follows from hashes, so that it cannot be chosen (CERT-4).

    >>> content_seed("prior", "posterior") == content_seed("prior", "posterior")
    True
    """
    return int.from_bytes(hashlib.sha256("\n".join(parts).encode()).digest()[:6], "big")


def evaluate_claims(
    model: nn.Module,
    prior: Gaussian,
    posterior: Gaussian,
    data: Examples,
    delta: float,
    charge: float,
) -> Evaluated:
    """Measure the empirical risks and state what follows from them.

    The randomised network and the majority vote share one event, so both claims hold together;
    the one drawn network has an event of its own.
    """
    n = len(data)
    divergence = posterior.kl(prior).total
    hashes = (prior.hash, posterior.hash, data.hash)
    spent = split_delta(delta)

    seed = content_seed(*hashes, "Monte Carlo")
    noisy = NoisyNetwork(model, posterior, data.inputs[:PROBES])
    chunk = CHUNKS[noisy.independent]
    found = count_errors(noisy, data, passes=passes_over(n), seed=seed, chunk=chunk)
    carlo = MonteCarlo(
        independent=noisy.independent,
        counts=found.by_draw.tolist(),
        chunk=found.chunk,
        seed=seed,
        methods=noisy.method,
        limit=found.limit(spent["Monte Carlo"]),
    )
    gibbs = pac_bayes_kl(
        carlo.limit, divergence, n, spent["PAC-Bayes"], constant=CONSTANT, charge=charge
    )

    weights = drawn_weights(posterior, content_seed(*hashes, "one drawn network"))
    drawn_errors = mistakes(with_weights(model, weights), data)
    ratio = posterior.log_ratio(prior, weights)
    drawn_risk = error_rate(drawn_errors, n)
    drawn = single_draw_kl(drawn_risk, ratio, n, delta, constant=CONSTANT, charge=charge)
    claims = [
        Claim(
            about="the randomised network",
            bound=gibbs,
            delta=spent,
            risk=carlo.limit,
            nats=divergence,
        ),
        Claim(
            about="one drawn network",
            bound=drawn,
            delta={"one draw": delta},
            risk=drawn_risk,
            nats=ratio,
        ),
        Claim(
            about="the majority vote",
            bound=min(1.0, 2 * gibbs),
            delta=spent,
            risk=carlo.limit,
            nats=divergence,
        ),
    ]
    return Evaluated(claims, carlo, drawn_errors)


def split_delta(delta: float) -> dict[str, float]:
    """The ledger of the randomised network: a fifth of delta goes to the Monte Carlo.

    >>> split_delta(0.05)
    {'PAC-Bayes': 0.04, 'Monte Carlo': 0.01}
    """
    ledger = DeltaLedger(delta)
    carlo = ledger.spend("Monte Carlo", float(f"{delta / 5:.6g}"))
    return {"PAC-Bayes": ledger.spend_rest("PAC-Bayes"), "Monte Carlo": carlo}


def passes_over(n: int) -> int:
    """How often n examples are evaluated: a rule, so that nobody stops when it suits."""
    return min(MOST_PASSES, max(1, -(-OBSERVATIONS // n)))


def counted(carlo: MonteCarlo, examples: int) -> ErrorCounts:
    """The counts of a record, in the form that knows its confidence limit."""
    return ErrorCounts(
        np.array(carlo.counts, dtype=np.int64), examples, carlo.chunk, carlo.independent, carlo.seed
    )


def batches_of(data: Examples, size: int = 1000) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and targets, some at a time."""
    for start in range(0, len(data), size):
        yield data.inputs[start : start + size], data.targets[start : start + size]


def mistakes(model: nn.Module, data: Examples) -> int:
    """Errors of a deterministic network; ties count as errors (001-E7)."""
    with torch.no_grad():
        return sum(
            int(errors_of(outputs_of(model, inputs), targets).sum())
            for inputs, targets in batches_of(data)
        )


def outputs_of(model: nn.Module, inputs: Tensor) -> Tensor:
    """Class scores, computed where and in the precision in which the network is."""
    first = next(model.parameters())
    try:
        return logits_of(model(place(inputs, first.device, first.dtype)))
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise CurvboundError(
            f"The network cannot process inputs of shape {tuple(inputs.shape)}: {reason}."
        ) from error


def predictions(model: nn.Module, inputs: Tensor) -> Tensor:
    """Predicted classes."""
    return outputs_of(model, inputs).argmax(1)


def looseness(
    claim: Claim, carlo: MonteCarlo, union: Union, layers: Mapping[str, float], n: int
) -> dict[str, float]:
    """Where the bound comes from: what each source adds, in the order risk to confidence."""
    measured = counted(carlo, n).risk
    divergence = claim.nats
    with_kl = kl_inverse(claim.risk, divergence / n)
    with_union = kl_inverse(claim.risk, (divergence + union.charge) / n)
    parts = {"empirical risk": measured, "Monte Carlo": claim.risk - measured}
    total = sum(layers.values()) or 1.0
    for name, nats in layers.items():
        parts[f"KL of {name}"] = (with_kl - claim.risk) * nats / total
    parts["choice of the prior"] = with_union - with_kl
    parts["confidence"] = claim.bound - with_union
    return parts


def drawn_weights(posterior: Gaussian, seed: int) -> dict[str, Tensor]:
    """The one draw of the posterior that belongs to a seed, in float64."""
    generator = torch.Generator().manual_seed(seed)
    return posterior.sample(generator, dtype=torch.float64)


def drawn_network(model: nn.Module, posterior: Gaussian, hashes: tuple[str, str, str]) -> nn.Module:
    """The deterministic network of the claim about one drawn network."""
    return with_weights(model, drawn_weights(posterior, content_seed(*hashes, "one drawn network")))


def with_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> nn.Module:
    """A copy of the network with other weights."""
    copied = copy.deepcopy(model).eval()
    with torch.no_grad():
        for name, parameter in copied.named_parameters():
            if name in weights:
                parameter.copy_(weights[name])  # rounds to the network's precision
    return copied


class RandomisedNetwork(nn.Module):
    """Predicts with weights drawn from a distribution, anew in every call.

    Every prediction has the law the certificate is about. Examples of one batch share a draw.
    """

    def __init__(self, model: nn.Module, posterior: Gaussian, seed: int | None = None) -> None:
        super().__init__()
        self.network = copy.deepcopy(model).eval()
        self.posterior = posterior
        self._generator = torch.Generator()
        self._generator.seed() if seed is None else self._generator.manual_seed(seed)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Draw weights and predict."""
        weights = self.posterior.sample(self._generator)
        return torch.func.functional_call(self.network, weights, args, kwargs)
