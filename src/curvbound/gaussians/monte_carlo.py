"""Counting the errors of a randomised network: the empirical risk a certificate starts from."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from curvbound.batches import Inputs, Replay, open_data
from curvbound.bounds import error_rate, kl_chernoff_limit, monte_carlo_limit
from curvbound.errors import CurvboundError
from curvbound.gaussians.forward import Independent, NoisyNetwork

__all__ = ["ErrorCounts", "chunk_generator", "count_errors", "errors_of"]

_CHUNK = {"example": 1000, "batch": 32}
_WORD = 0xFFFFFFFF


@dataclass(frozen=True)
class ErrorCounts:
    """Errors of independent weight draws on a data set.

    With independent examples, ``errors`` out of ``observations`` are independent Bernoulli
    variables whose mean expectation is the empirical risk of the randomised network (CERT-4 ii).

    With one draw per chunk (CERT-4 iii) the observations are ``values``, the errors of a chunk
    divided by the full chunk size. The last chunk may be shorter; it counts as filled up with
    correct predictions, so that all values lie in [0, 1] and have equal weight. Their mean
    expectation is the empirical risk times examples / padded, which :meth:`limit` takes back.

    Attributes:
        by_draw: Errors of every pass (row) and chunk (column).
        examples: Size of the data set.
        chunk: Examples per chunk.
        independent: What has weights of its own: every ``example`` or every ``batch`` (chunk).
        seed: The seed.
    """

    by_draw: NDArray[np.int64]
    examples: int
    chunk: int
    independent: Independent
    seed: int

    @property
    def errors(self) -> int:
        """All errors together."""
        return int(self.by_draw.sum())

    @property
    def passes(self) -> int:
        """How often the data were evaluated."""
        return len(self.by_draw)

    @property
    def observations(self) -> int:
        """Number of independent observations."""
        return self.passes * self.examples if self.independent == "example" else self.by_draw.size

    @property
    def padded(self) -> int:
        """Size of the data set with the last chunk filled up."""
        return int(self.by_draw.shape[1]) * self.chunk

    @property
    def values(self) -> NDArray[np.float64]:
        """Errors per chunk, divided by the chunk size, for one draw per chunk."""
        return self.by_draw.reshape(-1) / self.chunk

    @property
    def risk(self) -> float:
        """Estimated empirical risk of the randomised network, rounded up."""
        return error_rate(self.errors, self.passes * self.examples)

    def limit(self, delta: float, *, candidates: SupportsIndex = 1) -> float:
        """Upper limit of the empirical risk that holds with probability 1 - delta over the draws.

        Args:
            delta: Probability with which the limit may fail.
            candidates: How many posteriors were evaluated before the best was picked.
        """
        if self.independent == "example":
            rate = error_rate(self.errors, self.observations)
            return kl_chernoff_limit(rate, self.observations, delta, candidates=candidates)
        if self.observations == 1:
            rate = error_rate(self.errors, self.chunk)
            limit = kl_chernoff_limit(rate, 1, delta, candidates=candidates)
        else:
            limit = monte_carlo_limit(self.values, delta, candidates=candidates)
        # Quotients above were rounded to nearest; a few units in the last place pay for it.
        return min(1.0, limit * self.padded / self.examples * (1.0 + 1e-15))


def count_errors(
    noisy: NoisyNetwork, data: Any, passes: int, seed: int, *, chunk: int | None = None
) -> ErrorCounts:
    """Evaluate a randomised network on labelled data, a fixed number of times.

    The noise depends on the seed, the pass, and the chunk of the data, which has a fixed size:
    how a loader cuts the data into batches does not matter.

    >>> from torch import nn
    >>> from curvbound.gaussians import isotropic
    >>> X, y = torch.eye(2), torch.tensor([0, 1])
    >>> model = nn.Linear(2, 2, bias=False).eval()
    >>> noisy = NoisyNetwork(model, isotropic({"weight": 9 * torch.eye(2)}, 1e-4), X)
    >>> counts = count_errors(noisy, (X, y), passes=3, seed=0)
    >>> counts.errors, counts.observations
    (0, 6)

    Args:
        noisy: The network with its distribution of weights.
        data: ``(X, y)``, ``Examples``, a data set or a loader.
        passes: How often to go over the data; fixed in advance, never by looking at the result.
        seed: Any integer; certificates derive it from the content.
        chunk: Examples evaluated together, by default 1000, or 32 with one draw per batch.
    """
    size = _CHUNK[noisy.independent] if chunk is None else chunk
    if passes < 1 or size < 1:
        raise CurvboundError(
            f"passes and chunk must be at least 1, not {passes} and {size}: a limit needs draws."
        )
    state = torch.Generator().manual_seed(0).get_state()
    counts: list[list[int]] = []
    examples = 0
    for index, (inputs, targets) in enumerate(_fixed_chunks(Replay(open_data(data), state), size)):
        examples += len(targets)
        sources = (
            chunk_generator(seed, index * passes + turn, noisy.device) for turn in range(passes)
        )
        outputs = noisy.passes(inputs, sources)
        counts.append([int(errors_of(output, targets).sum()) for output in outputs])
    if not counts:
        raise CurvboundError("The data are empty: there is not a single example.")
    by_draw = np.array(counts, dtype=np.int64).T
    return ErrorCounts(by_draw, examples, size, noisy.independent, seed)


def errors_of(outputs: Tensor, targets: Tensor) -> Tensor:
    """Whether each prediction is an error: ties and NaN are.

    A prediction is right only if the output of the true class is strictly above all others.

    >>> outputs = torch.tensor([[1.0, 0.0], [1.0, 1.0], [2.0, float("nan")]])
    >>> errors_of(outputs, torch.tensor([0, 0, 0])).tolist()
    [False, True, True]
    """
    if outputs.dim() != 2 or outputs.shape[1] < 2 or targets.shape != outputs.shape[:1]:
        raise CurvboundError(
            f"Outputs of shape {tuple(outputs.shape)} and targets of shape {tuple(targets.shape)} "
            "do not fit: one row of at least two class scores is needed for each label."
        )
    if targets.is_floating_point() or targets.is_complex():
        raise CurvboundError("The targets must be whole class numbers, not floating point.")
    targets = targets.to(outputs.device, torch.int64)
    if not bool(((targets >= 0) & (targets < outputs.shape[1])).all()):
        raise CurvboundError(f"A label lies outside of 0 to {outputs.shape[1] - 1}.")
    own = outputs.gather(1, targets[:, None])
    others = outputs.scatter(1, targets[:, None], -torch.inf).amax(1, keepdim=True)
    return ~(own > others)[:, 0]


def chunk_generator(seed: int, index: int, device: torch.device | str = "cpu") -> torch.Generator:
    """Random numbers number ``index`` of a run; two different indices never share a stream.

    Torch's CPU generator keeps 32 bits of its seed, so hashing index and seed together could give
    one stream twice. Here the index goes through a bijection of 32-bit words, and the seed's hash
    is added without carry.
    """
    if not 0 <= index <= _WORD:
        raise CurvboundError("There are more chunks than random streams: use larger chunks.")
    word = index
    for factor, shift in ((0x85EBCA6B, 16), (0xC2B2AE35, 13)):
        word = ((word ^ (word >> shift)) * factor) & _WORD
    word ^= word >> 16
    base = int.from_bytes(hashlib.sha256(str(int(seed)).encode()).digest()[:4], "big")
    return torch.Generator(device).manual_seed(word ^ base)


def _fixed_chunks(
    batches: Iterable[tuple[Inputs, Tensor]], size: int
) -> Iterator[tuple[Inputs, Tensor]]:
    """Cut a stream of batches into chunks of exactly ``size`` examples; the last may be shorter."""
    rest: tuple[Inputs, Tensor] | None = None
    for inputs, targets in batches:
        joined = (inputs, targets) if rest is None else _joined(rest, (inputs, targets))
        start = 0
        while start + size <= len(joined[1]):
            yield _rows(joined, start, start + size)
            start += size
        rest = _rows(joined, start, len(joined[1])) if start < len(joined[1]) else None
    if rest is not None:
        yield rest


def _rows(batch: tuple[Inputs, Tensor], start: int, stop: int) -> tuple[Inputs, Tensor]:
    inputs, targets = batch
    if isinstance(inputs, Mapping):
        return {key: value[start:stop] for key, value in inputs.items()}, targets[start:stop]
    return inputs[start:stop], targets[start:stop]


def _joined(first: tuple[Inputs, Tensor], second: tuple[Inputs, Tensor]) -> tuple[Inputs, Tensor]:
    targets = torch.cat([first[1], second[1]])
    if isinstance(first[0], Mapping):
        return {key: torch.cat([value, second[0][key]]) for key, value in first[0].items()}, targets
    return torch.cat([first[0], second[0]]), targets
