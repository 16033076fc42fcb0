"""Sums of products A A^T, half of the work saved and added up in double precision."""

import torch
from torch import Tensor

__all__ = ["SymmetricSum"]

# Widths of panels, by size of the matrix up to which they are the fastest way to skip the lower
# triangle (measured).
PANELS = ((128, 32), (256, 64), (2**62, 128))
# Columns after which the running sum moves to double precision.
FLUSH = 8192


class SymmetricSum:
    """Running sum of alpha A A^T over matrices A ``(groups, n, R)``.

    Only panels on and above the diagonal are multiplied. Products are formed in the precision of A
    and collected in double precision, so that the error does not grow with the amount of data.
    """

    def __init__(self, groups: int, size: int, like: Tensor) -> None:
        shape = (groups, size, size)
        self._total = torch.zeros(shape, dtype=torch.float64, device=like.device)
        wide = like.dtype == torch.float64
        self._partial = (
            self._total if wide else torch.zeros(shape, dtype=like.dtype).to(like.device)
        )
        self._columns = 0
        self._panel = next(width for limit, width in PANELS if size <= limit)

    def add(self, A: Tensor, alpha: float = 1.0) -> None:
        """Add ``alpha A A^T``."""
        groups, size, count = A.shape
        if groups > 1:
            self._partial.baddbmm_(A, A.mT, alpha=alpha)
        else:
            matrix, partial = A[0], self._partial[0]
            for start in range(0, size, self._panel):
                stop = min(start + self._panel, size)
                partial[start:stop, start:].addmm_(
                    matrix[start:stop], matrix[start:].T, alpha=alpha
                )
        self._count(count)

    def add_product(self, product: Tensor, count: int) -> None:
        """Add a symmetric matrix that stands for ``count`` columns."""
        self._partial[0] += product
        self._count(count)

    def _count(self, columns: int) -> None:
        self._columns += columns
        if self._columns >= FLUSH:
            self._flush()

    def _flush(self) -> None:
        if self._partial is not self._total:
            self._total += self._partial
            self._partial.zero_()
        self._columns = 0

    def finish(self) -> Tensor:
        """The sum as a full, exactly symmetric matrix, ``(groups, n, n)`` in double precision."""
        self._flush()
        size = self._total.shape[1]
        for start in range(0, size, self._panel):
            stop = min(start + self._panel, size)
            self._total[:, stop:, start:stop] = self._total[:, start:stop, stop:].mT
            block = self._total[:, start:stop, start:stop]
            block.copy_(block.triu() + block.triu(1).mT)
        return self._total
