"""Reading data: tensors, data sets, loaders and dictionaries as a stream of equal chunks."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from curvbound.errors import CurvboundError

__all__ = ["Inputs", "Replay", "batch_length", "chunks", "open_data", "random_state"]

Item = TypeVar("Item")
Drawn = TypeVar("Drawn")
Inputs = Any
"""What the network is called with: a tensor, or a mapping of keyword arguments."""

_LABEL_KEYS = ("labels", "label")
_LOADER_BATCH = 256


def open_data(data: Any) -> Iterable[tuple[Inputs, Tensor]]:
    """Turn any supported kind of data into a re-iterable of ``(inputs, targets)`` batches.

    Supported: a pair of tensors or arrays (hence ``Examples``), something with a ``train`` part
    (a data set with splits), a map-style torch data set, a loader or any other re-iterable of
    pairs, and loaders of dictionaries with a ``labels`` entry.
    """
    part = getattr(data, "train", None)
    if part is not None and not callable(part):
        data = part
    pair = _as_pair(data)
    if pair is not None:
        return [pair]
    if isinstance(data, torch.utils.data.Dataset) and hasattr(data, "__getitem__"):
        return _Batches(torch.utils.data.DataLoader(data, batch_size=_LOADER_BATCH))
    if isinstance(data, Iterator):
        raise CurvboundError(
            "The data can be read only once (an iterator): pass tensors, a data set, a DataLoader "
            "or a list of batches, because several passes are needed."
        )
    if isinstance(data, Iterable):
        return _Batches(data)
    raise CurvboundError(
        f"Cannot read data of type {type(data).__name__}: pass a pair of tensors (inputs, "
        "targets), a data set, or a loader of such pairs."
    )


class _Batches:
    """Normalises what a loader yields, on every pass."""

    def __init__(self, source: Iterable[Any]) -> None:
        self.source = source

    def __iter__(self) -> Iterator[tuple[Inputs, Tensor]]:
        for batch in self.source:
            yield _split_batch(batch)


def _as_pair(data: Any) -> tuple[Inputs, Tensor] | None:
    if hasattr(data, "inputs") and hasattr(data, "targets"):
        data = (data.inputs, data.targets)
    if not (isinstance(data, Sequence) and len(data) == 2):
        return None
    inputs, targets = data
    arrays = (Tensor, np.ndarray)
    if not isinstance(targets, arrays) or not isinstance(inputs, (*arrays, Mapping)):
        return None
    pair = _tensors(inputs), torch.as_tensor(targets)
    if batch_length(pair[0]) != len(pair[1]):
        raise CurvboundError(
            f"There are {batch_length(pair[0])} inputs but {len(pair[1])} targets: they must "
            "match one to one."
        )
    return pair


def _split_batch(batch: Any) -> tuple[Inputs, Tensor]:
    if isinstance(batch, Mapping):
        key = next((key for key in _LABEL_KEYS if key in batch), None)
        if key is None:
            raise CurvboundError(
                f"A batch is a dictionary with entries {', '.join(map(str, batch))} but no "
                "'labels': name the targets 'labels'."
            )
        rest = {name: value for name, value in batch.items() if name != key}
        return _tensors(rest), torch.as_tensor(batch[key])
    pair = _as_pair(batch)
    if pair is None:
        raise CurvboundError(
            f"A batch is a {type(batch).__name__} that is neither a pair (inputs, targets) nor a "
            "dictionary with 'labels'."
        )
    return pair


def _tensors(inputs: Any) -> Inputs:
    if isinstance(inputs, Mapping):
        return {key: torch.as_tensor(value) for key, value in inputs.items()}
    return torch.as_tensor(inputs)


def batch_length(inputs: Inputs) -> int:
    """Number of examples in a batch."""
    if isinstance(inputs, Mapping):
        return len(next(iter(inputs.values()))) if inputs else 0
    return len(inputs)


def place(inputs: Inputs, device: torch.device, dtype: torch.dtype) -> Inputs:
    """Move inputs to the network's device, floating-point ones to its precision."""
    if isinstance(inputs, Mapping):
        return {key: place(value, device, dtype) for key, value in inputs.items()}
    tensor: Tensor = inputs.detach()
    return tensor.to(device, dtype) if tensor.is_floating_point() else tensor.to(device)


def chunks(batches: Iterable[tuple[Inputs, Tensor]], size: int) -> Iterator[tuple[Inputs, Tensor]]:
    """Cut every batch into pieces of at most ``size`` examples, as equal as possible."""
    for inputs, targets in batches:
        length = len(targets)
        pieces = max(1, -(-length // size))
        bounds = [length * piece // pieces for piece in range(pieces + 1)]
        for start, stop in pairwise(bounds):
            if stop > start:
                yield _slice(inputs, start, stop), targets[start:stop]


def _slice(inputs: Inputs, start: int, stop: int) -> Inputs:
    if isinstance(inputs, Mapping):
        return {key: value[start:stop] for key, value in inputs.items()}
    return inputs[start:stop]


class Replay(Generic[Item]):
    """Iterates over ``source`` drawing random numbers from a fixed state of its own.

    A shuffling or augmenting loader draws from torch's global generator: with the same state every
    pass reads the same examples. The caller's random state is in place whenever the caller runs.
    """

    def __init__(self, source: Iterable[Item], state: Tensor) -> None:
        self._state = state
        self._items = self._drawing(lambda: iter(source))

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        return self._drawing(lambda: next(self._items))

    def _drawing(self, action: Callable[[], Drawn]) -> Drawn:
        with random_state(self._state):
            try:
                return action()
            finally:
                self._state = torch.get_rng_state()


@contextmanager
def random_state(state: Tensor) -> Iterator[None]:
    """Run with torch's CPU random state set to ``state`` and put the caller's back afterwards."""
    before = torch.get_rng_state()
    torch.set_rng_state(state)
    try:
        yield
    finally:
        torch.set_rng_state(before)
