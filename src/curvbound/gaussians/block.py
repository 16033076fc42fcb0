"""The covariance of one layer: independent variances in a rotated basis."""

from copy import copy
from functools import cached_property

import torch
from torch import Tensor

from curvbound.errors import CurvboundError
from curvbound.gaussians.layout import BlockLayout
from curvbound.gaussians.numerics import orthogonality_defect, orthonormal

__all__ = ["Block"]


class Block:
    """W - mean = left (sqrt(variance) * E) right^T with E standard normal, for one layer matrix W.

    One structure serves all: isotropic (one variance), diagonal (no rotation), per-neuron block
    (right basis, the same variances in every row, 000-C7) and Kronecker eigenbasis (both bases).

    Attributes:
        layout: The layer matrix.
        variance: Positive float64 variances, ``(rows or 1, columns or 1)``.
        left: Orthogonal ``(rows, rows)`` float64 matrix, or None for the identity.
        right: Orthogonal ``(columns, columns)`` float64 matrix, or None for the identity.
    """

    def __init__(
        self,
        layout: BlockLayout,
        variance: Tensor,
        left: Tensor | None = None,
        right: Tensor | None = None,
    ) -> None:
        self.layout = layout
        self.variance = _checked_variance(layout, variance)
        beside = self.variance.device
        self.left = _basis(left, layout.rows, f"The left basis of '{layout.name}'", beside)
        self.right = _basis(right, layout.columns, f"The right basis of '{layout.name}'", beside)
        # A rotation of coordinates with equal variances changes nothing.
        if self.variance.shape[0] == 1:
            self.left = None
        if self.variance.shape[1] == 1:
            self.right = None

    @property
    def isotropic(self) -> bool:
        """Whether one variance serves all parameters of the block."""
        return self.variance.numel() == 1

    def multiplicity(self) -> int:
        """How many parameters share one entry of ``variance``."""
        return self.layout.size // self.variance.numel()

    @cached_property
    def defect(self) -> float:
        """Bound on the spectral norm of A^T A - I for A = right kron left."""
        left, right = orthogonality_defect(self.left), orthogonality_defect(self.right)
        return (1.0 + left) * (1.0 + right) - 1.0

    def with_variance(self, variance: Tensor) -> "Block":
        """Other variances of the same shape in the same bases, which are not checked again."""
        if variance.shape != self.variance.shape:
            raise CurvboundError(
                f"The variance of '{self.layout.name}' has shape {tuple(variance.shape)} but must "
                f"have {tuple(self.variance.shape)}."
            )
        other = copy(self)
        other.variance = _checked_variance(self.layout, variance.to(self.variance.device))
        return other

    def standard_noise(
        self, count: int, generator: torch.Generator, dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        """``sqrt(variance) * E``, ``(count, rows, columns)``: independent draws before rotation."""
        shape = (count, self.layout.rows, self.layout.columns)
        noise = torch.randn(shape, generator=generator, dtype=dtype, device=generator.device)
        return noise.to(device).mul_(self.deviation(dtype, device))

    def deviation(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Square root of the variances in the precision of a calculation."""
        return self.variance.sqrt().to(device, dtype)

    def rotate(self, noise: Tensor) -> Tensor:
        """``left noise right^T`` for a matrix or a stack of matrices."""
        if self.left is not None:
            noise = self.left.to(noise) @ noise
        if self.right is not None:
            noise = noise @ self.right.to(noise).T
        return noise

    def whiten(self, difference: Tensor) -> Tensor:
        """``left^T difference right``: coordinates in which the covariance is diagonal."""
        if self.left is not None:
            difference = self.left.T @ difference
        return difference if self.right is None else difference @ self.right


def _basis(matrix: Tensor | None, size: int, what: str, device: torch.device) -> Tensor | None:
    return None if matrix is None else orthonormal(matrix.to(device), size, what)


def _checked_variance(layout: BlockLayout, variance: Tensor) -> Tensor:
    fits = variance.dim() == 2 and all(
        have in (1, full)
        for have, full in zip(variance.shape, (layout.rows, layout.columns), strict=True)
    )
    if not fits:
        raise CurvboundError(
            f"The variance of '{layout.name}' has shape {tuple(variance.shape)} but must have "
            f"{layout.rows} or 1 rows and {layout.columns} or 1 columns."
        )
    copy = variance.detach().to(torch.float64, copy=True).contiguous()
    if not bool((torch.isfinite(copy) & (copy > 0)).all()):
        raise CurvboundError(
            f"The variance of '{layout.name}' must be positive and finite everywhere: add damping "
            "to the curvature or choose a positive scale."
        )
    return copy
