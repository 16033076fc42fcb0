"""The closed-form posterior of 000: curvature in, Gaussian covariance out."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from curvbound.bounds import LogGrid
from curvbound.errors import CurvboundError
from curvbound.gaussians import Gaussian
from curvbound.gaussians.gaussian import kronecker as in_eigenbasis
from curvbound.gaussians.layout import layouts_of

__all__ = ["BlockCurvature", "ClosedForm", "closed_form"]

_SCALE_SAMPLE = 1 << 14
"""Eigenvalues looked at when a prior scale is chosen; the choice needs no more precision."""

_LOG_RANGE = 25.0
"""How far below the largest variance of a grid a prior scale is looked for, in powers of e."""


@dataclass(frozen=True)
class BlockCurvature:
    """Curvature of one layer matrix: eigenvalues in the basis left kron right.

    Attributes:
        values: Non-negative eigenvalues, ``(rows or 1, columns or 1)``.
        left: Orthogonal ``(rows, rows)``, or None for the identity.
        right: Orthogonal ``(columns, columns)``, or None for the identity.
    """

    values: Tensor
    left: Tensor | None = None
    right: Tensor | None = None

    def rotated(self, matrix: Tensor) -> Tensor:
        """Coordinates of a layer matrix in the basis, ``left^T W right``."""
        matrix = matrix if self.left is None else self.left.T @ matrix
        return matrix if self.right is None else matrix @ self.right

    def rotated_back(self, matrix: Tensor) -> Tensor:
        """The inverse of :meth:`rotated`."""
        matrix = matrix if self.left is None else self.left @ matrix
        return matrix if self.right is None else matrix @ self.right.T


@dataclass(frozen=True)
class ClosedForm:
    """A posterior by 000 eq. 6 together with the prior scales it was made for.

    Attributes:
        posterior: The Gaussian posterior.
        indices: Chosen grid index of every layer's prior variance.
        beta: Weight of the KL term it minimises.
    """

    posterior: Gaussian
    indices: Mapping[str, int]
    beta: float


def closed_form(
    curvature: Mapping[str, BlockCurvature],
    trained: Mapping[str, Tensor],
    prior_mean: Mapping[str, Tensor],
    beta: float,
    *,
    grids: Mapping[str, LogGrid],
    keep_mean: bool = True,
) -> ClosedForm:
    """Gaussian posterior that minimises "quadratic loss increase + beta KL" (000 eq. 6).

    In the eigenbasis of the curvature, with eigenvalue h, prior ``N(prior_mean, lambda I)`` and
    ``x = lambda h / beta``, every coordinate is on its own. The variance is ``beta / (h + beta /
    lambda)``. The mean stays at the trained weights (000), or takes the share ``x / (1 + x)`` of
    the way to them that minimises the same objective: it moves only where the loss is curved.

    The prior variance of each layer minimises what is left of the objective, in nats ``1/2 sum [d^2
    / lambda + log1p(x)]``, the first term times ``x / (1 + x)`` if the mean moves, plus the charge
    of its grid point. beta shapes the posterior alone and costs nothing (000-E7).

    Args:
        curvature: Curvature of the mean loss by layer, as from :func:`layer_curvature`.
        trained: Where the quadratic approximation has its minimum, by parameter name.
        prior_mean: Prior mean by parameter name.
        beta: Positive weight of the KL term.
        grids: Prior variances each layer may use, written down before the data were seen.
        keep_mean: Keep the posterior mean at ``trained``.
    """
    if not (math.isfinite(beta) and beta > 0):
        raise CurvboundError(f"beta must be a positive number, not {beta}.")
    indices, variance, mean = {}, {}, dict(trained)
    for name, layout in layouts_of(trained).items():
        if name not in curvature:
            raise CurvboundError(f"There is no curvature for layer '{name}': give one for each.")
        shape = curvature[name]
        h = shape.values.to(torch.float64)
        start = layout.join(prior_mean).to(torch.float64)
        moved = shape.rotated(layout.join(trained).to(torch.float64) - start)
        indices[name] = _choose_scale(h, moved, beta, grids[name], keep_mean)
        scale = grids[name].scale(indices[name])
        variance[name] = beta / (h + beta / scale)
        if not keep_mean:
            reached = start + shape.rotated_back(moved * (h / (h + beta / scale)))
            parts = layout.split(reached)
            mean.update({key: part.to(trained[key].dtype) for key, part in parts.items()})
    posterior = in_eigenbasis(
        mean,
        variance,
        {name: c.left for name, c in curvature.items() if c.left is not None},
        {name: c.right for name, c in curvature.items() if c.right is not None},
    )
    return ClosedForm(posterior, indices, beta)


def _choose_scale(h: Tensor, moved: Tensor, beta: float, grid: LogGrid, keep_mean: bool) -> int:
    """Grid index that minimises the objective over lambda, in nats, plus its charge."""
    squares = moved.square()
    distance = float(squares.sum())
    every = max(1, moved.numel() // _SCALE_SAMPLE)
    ratio = (h.expand_as(moved).reshape(-1)[::every] / beta).contiguous()
    bent = squares.reshape(-1)[::every] * ratio

    def price(j: int) -> float:
        scale = grid.scale(j)
        x = ratio * scale
        fit = every * float(torch.log1p(x).sum())
        way = distance / scale if keep_mean else every * float((bent / (1 + x)).sum())
        return 0.5 * (way + fit) + grid.charge(j)

    # Coarse to fine: the objective is smooth in ln lambda and the charge varies slowly.
    last = max(1, round(_LOG_RANGE * grid.precision))
    step = max(1, last // 32)
    best = min(range(1, last + 1, step), key=price)
    while step > 1:
        step = (step + 1) // 2
        best = min((max(1, best - step), best, best + step), key=price)
    return best
