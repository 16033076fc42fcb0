"""One pass over the data that sums squared per-example gradients for given cotangents."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from curvbound.batches import Inputs
from curvbound.curvature.captures import Captured, Plan, capture, output_gradients, plan_captures
from curvbound.curvature.squares import SquareSums
from curvbound.errors import CurvboundError
from curvbound.landscape import Landscape

__all__ = ["Cotangents", "Pass", "chunk_passes", "output_roots", "plan_for", "sum_squares"]

Cotangents = Callable[[Tensor, Tensor, int], Tensor]
"""From outputs, targets and the number of labels before them to cotangents ``(K, *outputs)``."""


class Pass:
    """One chunk of data: its forward pass, its cotangents, its backward passes."""

    def __init__(self, inputs: Inputs, captured: Captured, cotangents: Tensor) -> None:
        self.inputs, self.captured, self.cotangents = inputs, captured, cotangents

    def gradients(self) -> Iterator[list[Tensor]]:
        """Output gradients of all layer calls, one backward pass after the other."""
        return output_gradients(self.captured, self.cotangents)


def plan_for(land: Landscape, names: Sequence[str]) -> Plan:
    """The capture plan, restricted to layers that own one of the named parameters."""
    plan, wanted = plan_captures(land), frozenset(names)
    watched: dict[nn.Module, dict[str, str]] = {}
    for module, roles in plan.watched.items():
        kept = {role: name for role, name in roles.items() if name in wanted}
        if kept:
            watched[module] = kept
    return replace(plan, watched=watched)


def output_roots(land: Landscape) -> Cotangents:
    """Square roots of the output Hessian as cotangents; refuses what does not fit into memory."""
    loss = land.output_loss

    def cotangents(outputs: Tensor, targets: Tensor, _: int) -> Tensor:
        needed = outputs[0].numel() * outputs.nbytes
        if needed > land.memory:
            raise CurvboundError(
                f"The output Hessians of {len(outputs)} examples with {outputs[0].numel()} outputs "
                f"need about {needed / 2**20:.0f} MiB, but {land.memory / 2**20:.0f} MiB may be "
                "used: pass a smaller batch_size=, or sample with diagonal(kind='fisher')."
            )
        return loss.hessian_factor(outputs, targets)

    return cotangents


def chunk_passes(
    land: Landscape,
    plan: Plan,
    batches: Iterable[tuple[Inputs, Tensor]],
    cotangents: Cotangents,
) -> Iterator[Pass]:
    """Forward passes with cotangents, chunk by chunk."""
    labels = 0
    for inputs, targets in batches:
        captured = capture(land, plan.watched, inputs)
        with torch.no_grad():
            columns = cotangents(captured.outputs.detach(), targets, labels)
        labels += targets.numel()
        yield Pass(inputs, captured, columns)


def sum_squares(land: Landscape, names: Sequence[str], cotangents: Cotangents) -> dict[str, Tensor]:
    """Sum over examples and cotangents of the squared gradients, by parameter, in float64."""
    plan = plan_for(land, names)

    def contribution(batches: Iterable[tuple[Inputs, Tensor]]) -> dict[str, Tensor]:
        sums = SquareSums(land, plan, names)
        for chunk in chunk_passes(land, plan, batches, cotangents):
            squares = sums.add(chunk.inputs, chunk.captured, chunk.cotangents)
            for gradients in chunk.gradients():
                squares.add(gradients)
            squares.finish()
        return sums.totals

    return land.reduce(contribution, over=[(land.batches(),)])
