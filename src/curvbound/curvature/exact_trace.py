"""The exact trace of the Gauss-Newton matrix, without probes and without its diagonal."""

from collections.abc import Iterable

import torch
from torch import Tensor

from curvbound.batches import Inputs
from curvbound.curvature.square_pass import chunk_passes, output_roots, plan_for
from curvbound.curvature.squares import SquareSums
from curvbound.landscape import Landscape, LayerChoice

__all__ = ["gauss_newton_trace"]


def gauss_newton_trace(land: Landscape, layer: LayerChoice = None) -> float:
    """Trace of the Gauss-Newton matrix of the mean loss, exactly, at C - 1 backward passes.

    It is the mean over examples of the squared norm of J^T S with S S^T the output Hessian. A dense
    layer that sees every example once needs |g|^2 (|x|^2 + 1) only. Where every layer's Hessian
    block equals its Gauss-Newton block (:meth:`Landscape.block_is_gauss_newton`), this is also the
    trace of the Hessian (001-E3).

    >>> import torch
    >>> land = Landscape(torch.nn.Linear(3, 2), (torch.ones(6, 3), torch.tensor([0, 1] * 3)))
    >>> 0 < gauss_newton_trace(land) <= 2 * (3 + 1) / 4
    True

    Args:
        land: The landscape.
        layer: A layer, parameter, or list of them; None means all.
    """
    names = land.choose(layer)
    plan = plan_for(land, names)
    roots = output_roots(land)

    def contribution(batches: Iterable[tuple[Inputs, Tensor]]) -> Tensor:
        sums = SquareSums(land, plan, names)
        total = torch.zeros((), dtype=torch.float64, device=land.device)
        for chunk in chunk_passes(land, plan, batches, roots):
            squares = sums.add(chunk.inputs, chunk.captured, chunk.cotangents)
            for gradients in chunk.gradients():
                squares.add(gradients)
            total += squares.finish_norms()
        return total + sum(part.sum() for part in sums.totals.values())

    return float(land.reduce(contribution, over=[(land.batches(),)])) / land.terms
