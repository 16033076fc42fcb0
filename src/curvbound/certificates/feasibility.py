"""What diagonal Gaussians could reach at best (000, Lemma 4.2): an oracle, never a certificate."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from curvbound.errors import CurvboundError

__all__ = ["OptimalPrior", "optimal_prior_lower_bound"]


@dataclass(frozen=True)
class OptimalPrior:
    """The jointly optimal diagonal prior and posterior for fixed means (000 eqs. 7-9).

    The prior was fitted to the data, so none of this bounds the true risk (000-E5). It says that,
    with the loss replaced by its quadratic approximation and both means fixed, no pair of diagonal
    Gaussians has a smaller value of "expected loss increase + beta KL".

    Attributes:
        kl: KL divergence of the optimal pair, in nats.
        loss: Expected increase of the quadratic loss under the optimal posterior.
        value: ``loss + beta * kl``, the lower bound (000 eq. 9).
        prior_variance: Optimal prior variance per coordinate (infinite where h = 0).
        posterior_variance: Optimal posterior variance per coordinate (infinite where h = 0).
        clamped: Number of negative curvatures that were set to 0 (000-E3).
        kind: Always ``"oracle"``.
    """

    kl: float
    loss: float
    value: float
    prior_variance: Any
    posterior_variance: Any
    clamped: int
    kind: Literal["oracle"] = "oracle"


def optimal_prior_lower_bound(h: Any, d: Any, beta: float) -> OptimalPrior:
    """Lower bound of the IB-Lagrangian over diagonal Gaussian priors and posteriors (000 eq. 9).

    With ``phi = asinh(|d| sqrt(h / beta) / 2)`` per coordinate, the optimal prior variance is
    ``(beta / h) expm1(2 phi)``, the posterior variance ``-(beta / h) expm1(-2 phi)``, and the KL is
    the sum of ``phi``: the printed square roots without their cancellation (000-E2).

    >>> oracle = optimal_prior_lower_bound([2.0], [0.3], beta=0.01)
    >>> round(oracle.kl, 11), oracle.kind
    (1.49661142306, 'oracle')

    Args:
        h: Diagonal of the curvature of the mean loss, any shape.
        d: Posterior mean minus prior mean, same shape.
        beta: Weight of the KL term, positive.
    """
    curvature, distance = _array(h, "h"), _array(d, "d")
    if curvature.shape != distance.shape:
        raise CurvboundError(
            f"h has shape {curvature.shape} but d has shape {distance.shape}: one curvature and "
            "one distance per parameter are needed."
        )
    if not (np.isfinite(beta) and beta > 0):
        raise CurvboundError(f"beta must be a positive number, not {beta}.")
    clamped = int((curvature < 0).sum())
    curvature = np.maximum(curvature, 0.0)

    phi = np.arcsinh(np.abs(distance) * np.sqrt(curvature / beta) / 2)
    flat = curvature == 0  # no minimiser: both variances grow without limit, at no cost
    scale = beta / np.where(flat, 1.0, curvature)
    prior = np.where(flat, np.inf, scale * np.expm1(2 * phi))
    posterior = np.where(flat, np.inf, -scale * np.expm1(-2 * phi))
    kl = float(phi.sum())
    loss = float(-np.expm1(-2 * phi).sum() * beta / 2)
    return OptimalPrior(
        kl, loss, loss + beta * kl, _like(h, prior), _like(h, posterior), clamped=clamped
    )


def _array(values: Any, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise CurvboundError(f"{name} holds a value that is not finite: check the curvature.")
    return array


def _like(original: Any, array: np.ndarray[Any, np.dtype[np.float64]]) -> Any:
    return torch.as_tensor(array, device=original.device) if isinstance(original, Tensor) else array
