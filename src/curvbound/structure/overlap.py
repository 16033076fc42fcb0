"""Overlap of two subspaces (001 eq. 7)."""

import torch
from torch import Tensor

from curvbound.errors import CurvboundError

__all__ = ["subspace_overlap"]

# Far above the rounding of single-precision eigenvectors, far below a forgotten normalisation.
_ORTHONORMALITY = 1e-3


def subspace_overlap(U: Tensor, V: Tensor) -> float:
    """How much two k-dimensional subspaces share: ``(1/k) ||U^T V||_F^2`` (001 eq. 7).

    It lies in [0, 1], is 1 for equal and 0 for orthogonal subspaces, and does not depend on the
    bases chosen. For independent uniformly random subspaces of R^m its mean is k/m.

    Args:
        U: Orthonormal basis of the first subspace in columns, shape (m, k).
        V: Orthonormal basis of the second one, same shape.

    Raises:
        CurvboundError: If the shapes differ or the columns are not orthonormal.

    >>> subspace_overlap(torch.eye(4)[:, :2], torch.eye(4)[:, 1:3])
    0.5
    """
    if U.ndim != 2 or U.shape != V.shape or not 1 <= U.shape[1] <= U.shape[0]:
        raise CurvboundError(
            f"The overlap of bases with shapes {tuple(U.shape)} and {tuple(V.shape)} is not "
            "defined: give two (m, k) matrices of the same shape with 1 <= k <= m."
        )
    U, V = U.double(), V.to(U.device).double()
    for name, basis in (("first", U), ("second", V)):
        identity = torch.eye(basis.shape[1], dtype=basis.dtype, device=basis.device)
        error = float((basis.T @ basis - identity).abs().max())
        if not error <= _ORTHONORMALITY:  # also true for NaN
            raise CurvboundError(
                f"The columns of the {name} basis are not orthonormal (off by {error:.1e}): "
                "orthonormalise them first, for example with torch.linalg.qr."
            )
    shared = float((U.T @ V).square().sum()) / U.shape[1]
    return min(shared, 1.0)
