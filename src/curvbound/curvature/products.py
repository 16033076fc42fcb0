"""Checked and counted products with a symmetric operator known only through ``@``."""

from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor

from curvbound.curvature.interop import as_operator
from curvbound.errors import CurvboundError

__all__ = [
    "EXACT_DIMENSION",
    "Operator",
    "Products",
    "as_dense",
    "require_count",
    "require_symmetry",
    "sample_signs",
    "unit_blocks",
]

# Up to this dimension one product per unit vector is taken to be affordable.
EXACT_DIMENSION = 1024
# Blocks of vectors are sized so that one block stays below this many bytes.
_BLOCK_BYTES = 2**26
_LARGEST_BLOCK = 32


class Operator(Protocol):
    """Anything with a square ``shape`` and ``@``: ours, tensors, numpy, scipy, other libraries."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""

    def __matmul__(self, other: Any, /) -> Any: ...


class Products:
    """Multiplies with an operator, counts the vectors, and refuses answers that make no sense.

    Attributes:
        name: What the operator calls itself in messages.
        operator: The operator, wrapped if it is an outside one.
        dimension: Number of rows and columns P.
        dtype: Precision of the vectors.
        device: Where the vectors live.
        matvecs: Products so far; a block of b vectors counts b.
    """

    def __init__(self, operator: Operator) -> None:
        shape = tuple(getattr(operator, "shape", ()))
        if len(shape) != 2 or shape[0] != shape[1] or shape[0] < 1:
            raise CurvboundError(
                f"{type(operator).__name__} has shape {shape or 'unknown'}, but a curvature "
                "operator must be square and not empty: give it a shape of (P, P)."
            )
        self.name = type(operator).__name__
        self.operator = as_operator(operator)
        self.dtype, self.device = self.operator.dtype, self.operator.device
        if self.dtype not in (torch.float32, torch.float64):
            raise CurvboundError(
                f"{self.name} works in {self.dtype}, but spectra need torch.float32 or "
                "torch.float64: convert the model first."
            )
        self.dimension = int(shape[0])
        self.matvecs = 0

    @property
    def block(self) -> int:
        """How many vectors to multiply at once when all of them are known beforehand."""
        bytes_per_vector = self.dimension * self.dtype.itemsize
        return max(1, min(_LARGEST_BLOCK, _BLOCK_BYTES // bytes_per_vector))

    def __call__(self, vectors: Tensor) -> Tensor:
        """The product with a block of vectors, shape (P, b)."""
        single = vectors.shape[1] == 1
        result = self.operator @ (vectors[:, 0] if single else vectors)
        self.matvecs += vectors.shape[1]
        expected = (self.dimension,) if single else tuple(vectors.shape)
        if not isinstance(result, Tensor) or tuple(result.shape) != expected:
            got = tuple(getattr(result, "shape", ())) or type(result).__name__
            raise CurvboundError(
                f"{self.name} @ a tensor of shape {expected} gave {got}: "
                "its product must be a tensor of the same shape."
            )
        if not bool(torch.isfinite(result).all()):
            raise CurvboundError(
                f"A product with {self.name} contains NaN or infinity: check "
                "the weights and the loss for overflow, or use double precision."
            )
        return result.to(self.device, self.dtype).reshape(vectors.shape)


def require_count(value: int, least: int, what: str, why: str) -> None:
    """Refuse anything but a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise CurvboundError(f"{what} is {value!r}, but {why}: give a whole number >= {least}.")


def sample_signs(products: Products, generator: torch.Generator, count: int) -> Tensor:
    """``count`` Rademacher columns, drawn one by one so that blocking changes nothing."""
    columns = [
        torch.randint(0, 2, (products.dimension,), generator=generator) for _ in range(count)
    ]
    signs = torch.stack(columns, dim=1).mul_(2).sub_(1)
    return signs.to(products.device, products.dtype)


def unit_blocks(products: Products) -> Iterator[tuple[int, Tensor]]:
    """Products with all unit vectors, block by block: (first column, columns of the matrix)."""
    for first in range(0, products.dimension, products.block):
        last = min(first + products.block, products.dimension)
        units = torch.zeros(
            products.dimension, last - first, dtype=products.dtype, device=products.device
        )
        units[range(first, last), range(last - first)] = 1
        yield first, products(units)


def as_dense(products: Products) -> Tensor:
    """The whole matrix in float64 from P products, symmetrised; refuses a non-symmetric one."""
    matrix = torch.cat([columns for _, columns in unit_blocks(products)], dim=1).double()
    require_symmetry(products, float((matrix - matrix.T).abs().max()), float(matrix.abs().max()))
    return (matrix + matrix.T) / 2


def require_symmetry(products: Products, difference: float, scale: float) -> None:
    """Refuse an operator whose entries (i, j) and (j, i) differ by more than rounding explains."""
    allowed = 1e-6 if products.dtype == torch.float64 else 3e-3
    if difference > allowed * scale:
        raise CurvboundError(
            f"{products.name} is not symmetric (u'Hv and v'Hu differ by "
            f"{difference / scale:.1e} of its size): only symmetric operators have the spectrum "
            "asked for."
        )
