"""Sums of squared per-example gradients: diagonals of Gauss-Newton and Fisher matrices."""

from collections.abc import Sequence

import torch
from torch import Tensor

from curvbound.batches import Inputs
from curvbound.curvature.captures import Captured, Plan
from curvbound.curvature.example_gradients import example_gradients
from curvbound.curvature.uses import BIAS, WEIGHT, DenseUse, Use, example_parts, sum_of
from curvbound.landscape import Landscape

__all__ = ["ChunkSquares", "SquareSums"]

# Bytes of output gradients that wait to be multiplied together.
HELD = 2**26


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
        self._once: list[tuple[int, DenseUse, dict[str, str]]] = []
        self._direct: list[tuple[int, Use, str, str]] = []
        self._several: dict[str, list[tuple[int, Use, str]]] = {}
        self._squared: dict[int, Tensor] = {}
        self._held: dict[int, list[Tensor]] = {}
        for i, use in enumerate(uses):
            roles = {role: name for role, name in use.roles.items() if name in names}
            once = {role: name for role, name in roles.items() if plan.calls[name] == 1}
            if isinstance(use, DenseUse) and use.positions == 1:
                if once:
                    self._once.append((i, use, once))
            else:
                self._direct += [(i, use, role, name) for role, name in once.items()]
            for role, name in roles.items():
                if name not in once.values():
                    self._several.setdefault(name, []).append((i, use, role))

    def add(self, gradients: Sequence[Tensor]) -> None:
        """Take the output gradients of one backward pass."""
        for i, _, _, _ in self._direct:
            self._held.setdefault(i, [])
        for i, held in self._held.items():
            held.append(gradients[i])
        if sum(len(held) * held[0].nbytes for held in self._held.values()) > HELD:
            self._release()
        for i, use, _ in self._once:
            # The sum over cotangents comes first, so that there is one product per chunk.
            g = gradients[i].reshape(use.examples, -1)
            if i in self._squared:
                self._squared[i].addcmul_(g, g)
            else:
                self._squared[i] = g.square()
        for name, calls in self._several.items():
            self._totals[name] += _squares_of_sum(calls, gradients, self._totals[name].numel())

    def _release(self) -> None:
        for i, use, role, name in self._direct:
            if i in self._held:
                self._totals[name] += use.squares(role, self._held[i])
        self._held.clear()

    def finish(self) -> None:
        """Complete the totals; dense layers that see every example once need (g^2)^T x^2."""
        self._release()
        for i, use, roles in self._once:
            for role, name in roles.items():
                if role == BIAS:
                    self._totals[name] += self._squared[i].sum(0)
                else:
                    self._totals[name] += self._squared[i].T @ use.rows[:, 0].square()

    def finish_norms(self) -> Tensor | float:
        """In place of :meth:`finish`: for these layers only the sum of |g|^2 (|x|^2 + 1)."""
        self._release()
        total: Tensor | float = 0.0
        for i, use, roles in self._once:
            norms = self._squared[i].sum(1, dtype=torch.float64)
            if WEIGHT in roles:
                total = total + norms @ use.rows[:, 0].square().sum(1, dtype=torch.float64)
            if BIAS in roles:
                total = total + norms.sum()
        return total


def _squares_of_sum(
    calls: Sequence[tuple[int, Use, str]], gradients: Sequence[Tensor], size: int
) -> Tensor:
    """A parameter used by several calls has the sum of their gradients."""
    return sum_of(
        sum_of(use.gradient(role, gradients[i], part) for i, use, role in calls).square().sum(0)
        for part in example_parts(calls[0][1].examples, size)
    )
