"""KL divergence of two layer covariances, in float64, rounded up.

With A = right kron left of each, KL = 1/2 [tr(S_P^-1 S_Q) - mn - ln det(S_Q) + ln det(S_P)
+ d^T S_P^-1 d]. Bases are orthogonal only up to rounding: ||A^T A - I|| <= defect, so A^-1 differs
from A^T by at most defect/(1 - defect) relatively, and |ln det(A^T A)| <= mn defect/(1 - defect).
These differences are added to the result, together with the rounding of the sums.
"""

import torch
from torch import Tensor

from curvbound.gaussians.block import Block
from curvbound.gaussians.numerics import RELATIVE_ERROR, excess, upward

__all__ = ["block_kl"]


def block_kl(posterior: Block, prior: Block, difference: Tensor) -> float:
    """KL between the Gaussians of one layer whose means differ by ``difference``.

    Args:
        posterior: Covariance of Q.
        prior: Covariance of P.
        difference: Mean of Q minus mean of P, a float64 ``(rows, columns)`` matrix.
    """
    if prior.isotropic:
        return _to_isotropic(posterior, prior, difference)
    if _same_bases(posterior, prior):
        return _in_common_basis(posterior, prior, difference)
    return _between_bases(posterior, prior, difference)


def _to_isotropic(posterior: Block, prior: Block, difference: Tensor) -> float:
    """1/2 sum [s/l - 1 - ln(s/l)] + |d|^2 / (2 l): no rotation enters (T-11)."""
    scale = prior.variance
    shape = 0.5 * posterior.multiplicity() * float(excess(posterior.variance, scale).sum())
    shift = 0.5 * float((difference / scale.sqrt()).square().sum())  # d^2 alone may underflow
    trace = posterior.multiplicity() * float((posterior.variance / scale).sum())
    defect = posterior.defect
    tilt = 0.5 * defect * trace + 0.5 * posterior.layout.size * _inverse_error(defect)
    return upward(shape + shift, RELATIVE_ERROR * (shape + shift) + 1.01 * tilt)


def _in_common_basis(posterior: Block, prior: Block, difference: Tensor) -> float:
    """Coordinatewise: a common change of basis leaves the divergence as it is."""
    terms = excess(posterior.variance, prior.variance)
    shape = 0.5 * (posterior.layout.size // terms.numel()) * float(terms.sum())
    moved, error = _shift(prior, difference)
    return upward(shape + moved, RELATIVE_ERROR * (shape + moved) + error)


def _between_bases(posterior: Block, prior: Block, difference: Tensor) -> float:
    """The general case: variances of Q along the axes of P are T = (L^2) s (R^2)^T.

    L = left_P^T left_Q and R = right_P^T right_Q, squared entrywise; then
    KL = 1/2 sum [T/p - 1 - ln(T/p)] + 1/2 (sum ln T - sum ln s) + 1/2 d^T S_P^-1 d.
    """
    layout = posterior.layout
    variance = posterior.variance.expand(layout.rows, layout.columns)
    axes = _squares(prior.right, posterior.right)
    along = variance if axes is None else variance @ axes.T
    axes = _squares(prior.left, posterior.left)
    along = along if axes is None else axes @ along
    shape = 0.5 * float(excess(along, prior.variance).sum())
    log_along, log_own = along.log(), variance.log()
    spread = 0.5 * float((log_along - log_own).sum())
    moved, shift_error = _shift(prior, difference)

    magnitude = 0.5 * float(log_along.abs().sum() + log_own.abs().sum())
    trace_root = float((along / prior.variance).sum()) ** 0.5
    tilt = _inverse_error(posterior.defect) + _inverse_error(prior.defect)
    slip = 0.0 if prior.left is None and prior.right is None else 4.0 * tilt
    slip *= float(variance.sum() / prior.variance.min()) ** 0.5
    error = (
        RELATIVE_ERROR * (shape + moved + magnitude)
        + shift_error
        + slip * (trace_root + slip)
        + 0.505 * layout.size * tilt
    )
    return upward(shape + spread + moved, error)


def _shift(prior: Block, difference: Tensor) -> tuple[float, float]:
    """1/2 d^T S_P^-1 d, and a bound on what the basis of P being inexact can add."""
    coordinates = prior.whiten(difference)
    value = 0.5 * float((coordinates / prior.variance.sqrt()).square().sum())
    slip = 2.0 * _inverse_error(prior.defect) * float(coordinates.square().sum()) ** 0.5
    slip /= float(prior.variance.min()) ** 0.5
    return value, slip * ((2.0 * value) ** 0.5 + slip)


def _squares(prior: Tensor | None, posterior: Tensor | None) -> Tensor | None:
    """Squared entries of prior^T posterior; None when both are the identity."""
    if prior is None:
        return None if posterior is None else posterior.square()
    return (prior.T if posterior is None else prior.T @ posterior).square()


def _inverse_error(defect: float) -> float:
    return defect / (1.0 - defect)


def _same_bases(posterior: Block, prior: Block) -> bool:
    return _equal(posterior.left, prior.left) and _equal(posterior.right, prior.right)


def _equal(a: Tensor | None, b: Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    return torch.equal(a, b)
