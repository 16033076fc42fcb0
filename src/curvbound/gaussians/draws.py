"""The random numbers of a forward pass, and what several passes over one batch can share."""

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["Draws", "Kept"]

Moments = tuple[Tensor, Tensor]


class Kept:
    """Moments of layers that read the network's input itself: the same in every pass.

    The tensor a result belongs to is kept alive, so that equal address, layout and version mean
    equal content.
    """

    def __init__(self, inputs: Tensor | None) -> None:
        self._storage = None if inputs is None else inputs.untyped_storage().data_ptr()
        self._known: dict[str, tuple[Tensor, int, Moments]] = {}

    def moments(self, layer: str, x: Tensor, compute: Callable[[Tensor], Moments]) -> Moments:
        """``compute(x)``, done once if ``x`` is a view of the network's input."""
        if x.untyped_storage().data_ptr() != self._storage:
            return compute(x)
        if layer in self._known:
            tensor, version, moments = self._known[layer]
            if version == x._version and _same_view(tensor, x):
                return moments
        moments = compute(x)
        self._known[layer] = (x, x._version, moments)
        return moments


def _same_view(a: Tensor, b: Tensor) -> bool:
    return a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride()


class Draws:
    """The random numbers of one forward pass over a batch.

    A layer that runs twice gets the same numbers again: the generator is wound back to where it
    stood before the layer's first call.

    Attributes:
        examples: Examples in the batch.
        kept: What later passes over the same batch can use again.
    """

    def __init__(self, generator: torch.Generator, examples: int, kept: Kept) -> None:
        self.examples = examples
        self.kept = kept
        self._generator = generator
        self._before: dict[str, Tensor | None] = {}

    def first_call(self, layer: str) -> bool:
        """Whether the layer has not run yet in this pass."""
        return layer not in self._before

    def generator(self, layer: str, *, repeats: bool) -> torch.Generator:
        """Source of the layer's noise; with ``repeats`` the same numbers on every call."""
        state = self._before.get(layer)
        if state is None:
            self._before[layer] = self._generator.get_state() if repeats else None
            return self._generator
        again = torch.Generator(self._generator.device)
        again.set_state(state)
        return again
