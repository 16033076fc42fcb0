"""The pass over the data that collects Kronecker factors, small full blocks and diagonals."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from curvbound.batches import Inputs
from curvbound.curvature.captures import Captured, Plan
from curvbound.curvature.moments import InputMoment
from curvbound.curvature.square_pass import chunk_passes, output_roots
from curvbound.curvature.squares import SquareSums
from curvbound.curvature.sums import SymmetricSum
from curvbound.curvature.uses import AffineUse, Use
from curvbound.landscape import Landscape
from curvbound.layers import LayerBlock

__all__ = ["Method", "collect", "layer_methods"]

# Normalisation layers of up to this many parameters get their exact block.
DENSE_LIMIT = 1024


@dataclass(frozen=True)
class Method:
    """How a layer is treated.

    Attributes:
        kind: ``kronecker``, ``dense`` or ``diagonal``.
        note: In words, for the user.
    """

    kind: str
    note: str


def layer_methods(land: Landscape, plan: Plan) -> dict[str, Method]:
    """Choose a method for every layer."""
    return {name: _method(block, plan) for name, block in land.layers.items()}


def _method(block: LayerBlock, plan: Plan) -> Method:
    reasons = [f"{name}: {plan.general[name]}" for name in block.parameters if name in plan.general]
    if reasons:
        return Method("diagonal", f"exact diagonal only, because of {'; '.join(reasons)}")
    if any(plan.calls[name] > 1 for name in block.parameters):
        return Method("diagonal", "exact diagonal only, because the parameters are used repeatedly")
    if block.kind in ("linear", "conv"):
        return Method("kronecker", _factor_note(block))
    if block.kind == "embedding":
        return Method("diagonal", "exact diagonal only: embedding")
    if block.size > DENSE_LIMIT:
        return Method("diagonal", f"exact diagonal only: {block.size} normalisation parameters")
    return Method("dense", "exact block of a normalisation layer")


def _factor_note(block: LayerBlock) -> str:
    if block.kind == "linear" and block.positions == 1:
        return "E[M] kron E[x x^T], exact output Hessian"
    place = "output pixels" if block.kind == "conv" else "positions"
    return (
        f"E[M] kron E[X X^T] with M averaged over {block.positions} {place}: derivatives at "
        "different places are taken as uncorrelated (001 App. A.2)"
    )


class _Sums:
    """All running sums of one pass."""

    def __init__(self, land: Landscape, plan: Plan, methods: Mapping[str, Method]) -> None:
        self._land = land
        owners = {block.module: name for name, block in land.layers.items()}
        self._layer = {
            module: owners[module]
            for module in plan.watched
            if module in owners and methods[owners[module]].kind != "diagonal"
        }
        self._methods = methods
        self.inputs: dict[str, InputMoment] = {}
        self.outputs: dict[str, SymmetricSum] = {}
        names = [
            parameter
            for name, block in land.layers.items()
            if methods[name].kind == "diagonal"
            for parameter in block.parameters
        ]
        self.squares = SquareSums(land, plan, names)

    def add_inputs(self, captured: Captured) -> None:
        for use in captured.uses:
            name = self._layer.get(use.module)
            if name is not None and isinstance(use, AffineUse):
                if name not in self.inputs:
                    self.inputs[name] = InputMoment(use, captured.outputs)
                    self.outputs[name] = SymmetricSum(use.groups, use.height, captured.outputs)
                self.inputs[name].add(use)

    def add_outputs(self, uses: Sequence[Use], gradients: Sequence[Tensor]) -> None:
        for use, g in zip(uses, gradients, strict=True):
            name = self._layer.get(use.module)
            if name is None:
                continue
            if isinstance(use, AffineUse):
                # One factor 1 / P in total, here; the inputs are summed over positions (001-E4).
                self.outputs[name].add(use.output_rows(g), 1.0 / use.positions)
            else:
                rows = torch.cat([use.gradient(role, g).flatten(1) for role in use.roles], 1)
                if name not in self.outputs:
                    self.outputs[name] = SymmetricSum(1, rows.shape[1], rows)
                self.outputs[name].add(rows.T.unsqueeze(0))

    def finish(self) -> dict[str, Tensor]:
        result = {f"square {name}": total for name, total in self.squares.totals.items()}
        # Running sums are given up one by one: those of a large network fill the memory.
        for name in list(self.inputs):
            result[f"input {name}"] = self.inputs.pop(name).finish()
        for name in list(self.outputs):
            result[f"output {name}"] = self.outputs.pop(name).finish()
        return result


def collect(land: Landscape, plan: Plan, methods: Mapping[str, Method]) -> dict[str, Tensor]:
    """Sums over all data in double precision: ``input``, ``output`` by layer, ``square``."""
    roots = output_roots(land)

    def contribution(batches: Iterable[tuple[Inputs, Tensor]]) -> dict[str, Tensor]:
        sums = _Sums(land, plan, methods)
        for chunk in chunk_passes(land, plan, batches, roots):
            with torch.no_grad():
                sums.add_inputs(chunk.captured)
            squares = sums.squares.add(chunk.inputs, chunk.captured, chunk.cotangents)
            for gradients in chunk.gradients():
                sums.add_outputs(chunk.captured.uses, gradients)
                squares.add(gradients)
            squares.finish()
        return sums.finish()

    return land.reduce(contribution, over=[(land.batches(),)])
