"""Float64 arithmetic whose errors are known, so that a divergence can be rounded upwards.

Every sum of this package has terms with a relative error below 1e-13, and torch adds them in a
tree; :data:`RELATIVE_ERROR` is a generous bound for the whole. What is not covered by it, rotations
that are orthogonal only up to rounding, is measured by :func:`orthogonality_defect` and charged by
the caller.
"""

import math

import torch
from torch import Tensor

from curvbound.errors import CurvboundError

__all__ = ["RELATIVE_ERROR", "excess", "orthogonality_defect", "orthonormal", "upward"]

RELATIVE_ERROR = 1e-12
"""Bound on the relative error of a float64 sum of positive terms, at any number of terms."""

_SERIES_BELOW = 0.1
_SERIES_TERMS = 18
_SMALLEST_RATIO = 1e-290
_KEEP_BELOW = 1e-10
_REPAIR_BELOW = 0.1
_REPAIRS = 5
_ULP = 2.0**-52


def upward(value: float, error: float = 0.0) -> float:
    """``value + error``, rounded up; infinite where the calculation overflowed to NaN.

    >>> upward(1.0) > 1.0
    True
    """
    total = value + error
    return math.inf if math.isnan(total) else math.nextafter(total, math.inf)


def excess(variance: Tensor, reference: Tensor) -> Tensor:
    """The value r - 1 - ln r for r = variance / reference, elementwise, without cancellation.

    Twice the divergence of two Gaussians with equal means (000-C4). Near r = 1 it is a power
    series in x = r - 1, elsewhere the formula itself.

    >>> one, more = torch.tensor([1.0, 1.0 + 1e-9], dtype=torch.float64)
    >>> f"{float(excess(more, one)):.6e}"
    '5.000001e-19'
    """
    x = (variance - reference) / reference
    ratio = variance / reference
    log = torch.where(ratio < _SMALLEST_RATIO, variance.log() - reference.log(), ratio.log())
    small = torch.where(x.abs() < _SERIES_BELOW, x, 0.0)
    tail = torch.zeros_like(small)
    for power in range(_SERIES_TERMS, 1, -1):
        tail = (1.0 / power) - small * tail
    return torch.where(x.abs() < _SERIES_BELOW, small * small * tail, ratio - 1.0 - log)


def orthogonality_defect(matrix: Tensor | None) -> float:
    """Upper bound on the spectral norm of Q^T Q - I, with the rounding of the product included."""
    if matrix is None:
        return 0.0
    n = len(matrix)
    gram = matrix.T @ matrix
    gram.diagonal().sub_(1.0)
    return upward(float(torch.linalg.matrix_norm(gram)), n * n * _ULP)


def orthonormal(matrix: Tensor, size: int, what: str) -> Tensor:
    """A float64 copy of an orthogonal matrix, made orthogonal to float64 precision if need be.

    Eigenvectors computed in float32 are orthogonal to about 1e-6 only; Newton-Schulz steps move
    them to the nearest orthogonal matrix. One that is good already is kept bit for bit.
    """
    if matrix.shape != (size, size):
        raise CurvboundError(
            f"{what} has shape {tuple(matrix.shape)} but must be ({size}, {size})."
        )
    result = matrix.detach().to(torch.float64, copy=True).contiguous()
    if not orthogonality_defect(result) < _REPAIR_BELOW:
        raise CurvboundError(f"{what} is not orthogonal: pass eigenvectors as columns.")
    for _ in range(_REPAIRS):
        if orthogonality_defect(result) <= _KEEP_BELOW + size * size * _ULP:
            break
        result = 1.5 * result - 0.5 * result @ (result.T @ result)
    return result
