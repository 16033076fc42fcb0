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
    mean: Mapping[str, Tensor],
    prior_mean: Mapping[str, Tensor],
    beta: float,
    *,
    grids: Mapping[str, LogGrid],
) -> ClosedForm:
    """Gaussian posterior that minimises "quadratic loss increase + beta KL" (000 eq. 6).

    Its covariance is ``beta (H + (beta / lambda) I)^-1`` for the prior ``N(prior_mean, lambda I)``.
    The prior variance of each layer minimises what is left, ``|d|^2 / lambda + sum log1p(lambda h /
    beta)``, which is convex in ln lambda, and is then moved to a point of the grid, because only
    those are paid for. beta shapes the posterior alone and costs nothing (000-E7).

    Args:
        curvature: Curvature of the mean loss by layer, as from :func:`layer_curvature`.
        mean: Posterior mean by parameter name.
        prior_mean: Prior mean by parameter name.
        beta: Positive weight of the KL term.
        grids: Prior variances each layer may use, written down before the data were seen.
    """
    if not (math.isfinite(beta) and beta > 0):
        raise CurvboundError(f"beta must be a positive number, not {beta}.")
    indices, variance = {}, {}
    for name, layout in layouts_of(mean).items():
        if name not in curvature:
            raise CurvboundError(f"There is no curvature for layer '{name}': give one for each.")
        h = curvature[name].values.to(torch.float64)
        moved = layout.join(mean).to(torch.float64) - layout.join(prior_mean).to(torch.float64)
        distance = float(moved.square().sum())
        indices[name] = _choose_scale(h, layout.size // h.numel(), distance, beta, grids[name])
        variance[name] = beta / (h + beta / grids[name].scale(indices[name]))
    posterior = in_eigenbasis(
        mean,
        variance,
        {name: c.left for name, c in curvature.items() if c.left is not None},
        {name: c.right for name, c in curvature.items() if c.right is not None},
    )
    return ClosedForm(posterior, indices, beta)


def _choose_scale(h: Tensor, multiplicity: int, distance: float, beta: float, grid: LogGrid) -> int:
    """Grid index that minimises the profile of 000 eq. 6 over lambda, in nats, plus its charge."""
    every = max(1, h.numel() // _SCALE_SAMPLE)
    seen = h.reshape(-1)[::every]
    weight = multiplicity * h.numel() / seen.numel()

    def price(j: int) -> float:
        scale = grid.scale(j)
        fit = weight * float(torch.log1p(seen * (scale / beta)).sum())
        return 0.5 * (distance / scale + fit) + grid.charge(j)

    # Coarse to fine: the profile is convex in ln lambda and the charge varies slowly.
    last = round(_LOG_RANGE * grid.precision)
    step = max(1, last // 32)
    best = min(range(1, last + 1, step), key=price)
    while step > 1:
        step = (step + 1) // 2
        best = min((max(1, best - step), best, best + step), key=price)
    return best
