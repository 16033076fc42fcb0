"""Sums of squared per-example gradients: diagonals of Gauss-Newton and Fisher matrices."""

from collections.abc import Sequence

import torch
from torch import Tensor

from curvbound.batches import Inputs
from curvbound.curvature.captures import Captured, Plan
from curvbound.curvature.example_gradients import example_gradients
from curvbound.curvature.uses import BIAS, DenseUse, Use, example_parts
from curvbound.landscape import Landscape

__all__ = ["SquareSums", "seen_once"]

Role = tuple[Use, str, Tensor]


def seen_once(use: Use) -> bool:
    """Whether the call is a dense layer that sees every example at one position."""
    return isinstance(use, DenseUse) and use.positions == 1


class SquareSums:
    """Running sums over examples and cotangents of squared per-example gradients.

    Attributes:
        totals: The sums in double precision, by parameter name.
    """

    def __init__(self, land: Landscape, plan: Plan, names: Sequence[str]) -> None:
        self._land = land
        self._plan = plan
        self._general = [name for name in names if name in plan.general]
        self._known = frozenset(names) - frozenset(self._general)
        self.totals = {
            name: torch.zeros_like(land.parameters[name], dtype=torch.float64).detach()
            for name in names
        }

    def add(self, inputs: Inputs, captured: Captured, cotangents: Tensor) -> "ChunkSquares":
        """Start a chunk; parameters outside of known layers are done at once."""
        if self._general:
            for _, parts in example_gradients(self._land, self._general, inputs, cotangents):
                for name, gradients in parts.items():
                    self.totals[name] += gradients.square_().sum((0, 1))
        return ChunkSquares(self.totals, captured.uses, self._plan, self._known)


class ChunkSquares:
    """Squares of one chunk, fed with one backward pass after the other."""

    def __init__(
        self, totals: dict[str, Tensor], uses: Sequence[Use], plan: Plan, names: frozenset[str]
    ) -> None:
        self._totals = totals
        self._uses = [
            (use, {role: name for role, name in use.roles.items() if name in names}) for use in uses
        ]
        self._plan = plan
        self._pending: dict[int, Tensor] = {}

    def add(self, gradients: Sequence[Tensor]) -> None:
        """Take the output gradients of one backward pass."""
        several: dict[str, list[Role]] = {}
        for i, ((use, roles), g) in enumerate(zip(self._uses, gradients, strict=True)):
            for role, name in roles.items():
                if self._plan.calls[name] > 1:
                    several.setdefault(name, []).append((use, role, g))
                elif not seen_once(use):
                    self._totals[name] += use.squares(role, g)
            if seen_once(use) and any(self._plan.calls[name] == 1 for name in roles.values()):
                # The sum over cotangents comes first, so that there is one product per chunk.
                squared = g.reshape(use.examples, -1).square()
                if i in self._pending:
                    self._pending[i] += squared
                else:
                    self._pending[i] = squared
        for name, calls in several.items():
            self._totals[name] += _squares_of_sum(calls, self._totals[name].numel())

    def finish(self) -> None:
        """Complete the chunk."""
        for i, squared in self._pending.items():
            use, roles = self._uses[i]
            assert isinstance(use, DenseUse)  # for the type checker
            for role, name in roles.items():
                if self._plan.calls[name] > 1:
                    continue
                if role == BIAS:
                    self._totals[name] += squared.sum(0)
                else:
                    self._totals[name] += squared.T @ use.rows[:, 0].square()


def _squares_of_sum(calls: Sequence[Role], size: int) -> Tensor:
    """A parameter used by several calls has the sum of their gradients."""
    total: Tensor | None = None
    for part in example_parts(calls[0][0].examples, size):
        summed = sum(use.gradient(role, g, part) for use, role, g in calls)
        assert isinstance(summed, Tensor)  # for the type checker
        squares = summed.square().sum(0)
        total = squares if total is None else total + squares
    assert total is not None  # for the type checker
    return total
