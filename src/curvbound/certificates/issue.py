"""Issuing a certificate: shape a posterior, measure it once, write everything down."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from curvbound.certificates.certificate import Certificate
from curvbound.certificates.claims import (
    batches_of,
    evaluate_claims,
    looseness,
    predictions,
    with_weights,
)
from curvbound.certificates.closed_form import BlockCurvature
from curvbound.certificates.preparation import Prepared
from curvbound.certificates.prior import Prior
from curvbound.certificates.record import DataRecord, HoldOut, PriorRecord, Record, Union
from curvbound.certificates.search import search
from curvbound.certificates.shape import Structure, layer_curvature
from curvbound.certificates.versions import versions
from curvbound.datasets import Examples
from curvbound.errors import CurvboundError
from curvbound.gaussians import Gaussian
from curvbound.landscape import Landscape

__all__ = ["Request", "issue"]

_CURVATURE_EXAMPLES = {"quick": 2_000, "standard": 10_000, "thorough": 50_000}
_FRACTIONS = {
    "quick": (0.6,),
    "standard": (1.0, 0.6, 0.3),
    "thorough": (1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2),
}


@dataclass(frozen=True)
class Request:
    """What the caller asked for, apart from network, prior and data."""

    structure: Structure
    delta: float
    keep_mean: bool
    budget: str
    seed: int
    started: float
    say: Callable[[str], None]

    def __post_init__(self) -> None:
        if self.budget not in _FRACTIONS:
            raise CurvboundError(
                f"There is no budget '{self.budget}': choose quick, standard or thorough."
            )


def issue(
    prepared: Prepared,
    prior: Prior,
    data: Examples,
    request: Request,
    *,
    holdout: HoldOut | None,
    network: Mapping[str, Any] | None,
    repeated: int = 0,
) -> Certificate:
    """Shape the posterior by the curvature, measure its risk with fresh draws, state the claims."""
    request.say("looking for the best posterior")
    best = search(
        prepared,
        prior,
        _curvature(prepared, data, request),
        data,
        request.delta,
        fractions=_fractions(prior, request),
        keep_mean=request.keep_mean,
        seed=request.seed,
    )
    posterior = best.form.posterior
    fixed = prior.distribution(best.form.indices)
    union = _union(prior, best.form.indices)
    request.say("measuring the risk of the randomised network")
    evaluated = evaluate_claims(prepared.model, fixed, posterior, data, request.delta, union.charge)
    layers = dict(posterior.kl(fixed).layers)
    main = evaluated.claims[0]
    record = Record(
        claims=evaluated.claims,
        data=DataRecord(
            hash=data.hash,
            examples=len(data),
            classes=data.classes,
            name=data.name,
            repeated_rows=repeated,
        ),
        kl_layers=layers,
        prior=PriorRecord(
            source=prior.source,
            hash=fixed.hash,
            specification=None if prior.specification is None else dict(prior.specification),
            data_hash=prior.data_hash,
        ),
        posterior_hash=posterior.hash,
        posterior_structure=request.structure,
        union=union,
        monte_carlo=evaluated.monte_carlo,
        drawn_errors=evaluated.drawn_errors,
        holdout=holdout,
        mean_moved=any(
            not torch.equal(posterior.mean[name], tensor)
            for name, tensor in prepared.trained.items()
        ),
        agreement=_agreement(prepared, posterior, data),
        looseness=looseness(main, evaluated.monte_carlo, union, layers, len(data)),
        assumptions=_assumptions(prior),
        network=None if network is None else dict(network),
        settings={
            "beta": best.form.beta,
            "expanded_at": best.fraction,
            "keep_mean": request.keep_mean,
            "budget": request.budget,
            "seed": request.seed,
            "batch_norm_converted": list(prepared.converted),
        },
        versions=versions(),
        seconds=time.perf_counter() - request.started,
    )
    return Certificate(record, prior=fixed, posterior=posterior, model=prepared.model)


def _curvature(
    prepared: Prepared, data: Examples, request: Request
) -> Callable[[Mapping[str, Tensor]], Mapping[str, BlockCurvature]]:
    """Curvature at any weights; a part of the data suffices to shape a posterior."""
    enough = _CURVATURE_EXAMPLES[request.budget]
    seen = data if len(data) <= enough else data.split(enough, seed=request.seed)[0]

    def at(weights: Mapping[str, Tensor]) -> Mapping[str, BlockCurvature]:
        land = Landscape(with_weights(prepared.model, weights), seen)
        return layer_curvature(land, request.structure)

    return at


def _fractions(prior: Prior, request: Request) -> tuple[float, ...]:
    if request.keep_mean:
        return (1.0,)
    # A prior that was trained may already be the best mean.
    trained = (0.0,) if prior.source == "disjoint data" else ()
    return (*_FRACTIONS[request.budget], *trained)


def _union(prior: Prior, indices: Mapping[str, int]) -> Union:
    return Union(
        precision={name: prior.grids[name].precision for name in indices},
        largest={name: prior.grids[name].largest for name in indices},
        indices=dict(indices),
        tried=prior.tried,
        charges=prior.charges(indices),
        charge=prior.charge(indices),
    )


def _agreement(prepared: Prepared, posterior: Gaussian, data: Examples) -> float:
    """Share of the data on which the mean network predicts what the user's network does."""
    moved = with_weights(prepared.model, posterior.mean)
    same = 0
    with torch.no_grad():
        for inputs, _ in batches_of(data):
            theirs = predictions(prepared.model, inputs)
            same += int((predictions(moved, inputs) == theirs).sum())
    return same / len(data)


def _assumptions(prior: Prior) -> list[str]:
    chosen = {
        "initialisation": "the prior mean was drawn without looking at the data",
        "disjoint data": "the prior mean was trained on data independent of the bound data",
    }
    return [
        "the examples are independent draws from the distribution of interest",
        chosen[prior.source],
        f"no more than {prior.tried} priors were looked at on these data",
        "architecture, frozen parameters and input scaling were not fitted to these data",
    ]
