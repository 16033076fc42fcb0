"""Curvature operators of other libraries here, and ours there."""

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from curvbound.errors import CurvboundError

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

__all__ = ["MatrixOperator", "OutsideOperator", "as_operator", "to_scipy"]


@runtime_checkable
class MatrixOperator(Protocol):
    """What every consumer of curvature relies on: ``shape``, ``@``, and four facts."""

    shape: tuple[int, int]
    dtype: torch.dtype
    device: torch.device
    psd: bool
    matvecs: int

    def __matmul__(self, vectors: Tensor) -> Tensor:
        """Product with a vector (P,) or a block (P, k)."""


class OutsideOperator:
    """A symmetric matrix from elsewhere: anything with ``.shape`` and ``@``.

    numpy arrays, scipy sparse matrices and LinearOperators get numpy vectors, everything else
    (tensors, operators of other curvature libraries) gets tensors.

    Args:
        matrix: The outside object.
        psd: Whether it is known to be positive semi-definite; nothing is assumed otherwise.
    """

    def __init__(self, matrix: Any, *, psd: bool = False) -> None:
        shape = tuple(int(side) for side in getattr(matrix, "shape", ()))
        if len(shape) != 2 or shape[0] != shape[1] or not hasattr(matrix, "__matmul__"):
            raise CurvboundError(
                f"A {type(matrix).__name__} of shape {shape} is not a square operator: it needs "
                ".shape == (P, P) and @."
            )
        self.matrix = matrix
        self.shape: tuple[int, int] = (shape[0], shape[1])
        self.psd = psd
        self.matvecs = 0
        self._numpy = isinstance(matrix, np.ndarray) or type(matrix).__module__.startswith("scipy")
        self.dtype = _torch_dtype(getattr(matrix, "dtype", None))
        self.device = torch.device(getattr(matrix, "device", "cpu"))

    def __matmul__(self, vectors: Tensor) -> Tensor:
        if vectors.dim() not in (1, 2) or len(vectors) != self.shape[1]:
            raise CurvboundError(
                f"An operator of shape {self.shape} cannot multiply a tensor of shape "
                f"{tuple(vectors.shape)}."
            )
        self.matvecs += 1 if vectors.dim() == 1 else vectors.shape[1]
        vectors = vectors.detach().to(self.device, self.dtype)
        product = self.matrix @ (vectors.cpu().numpy() if self._numpy else vectors)
        return torch.as_tensor(product).to(self.device, self.dtype)


def as_operator(matrix: Any, *, psd: bool = False) -> MatrixOperator:
    """Accept an operator of ours as it is, and wrap anything else with ``.shape`` and ``@``.

    >>> A = as_operator(np.diag([1.0, 2.0, 3.0]), psd=True)
    >>> A @ torch.ones(3, dtype=torch.float64)
    tensor([1., 2., 3.], dtype=torch.float64)
    """
    if isinstance(matrix, MatrixOperator) and not isinstance(matrix, Tensor | np.ndarray):
        return matrix
    return OutsideOperator(matrix, psd=psd)


def to_scipy(operator: MatrixOperator) -> "LinearOperator":
    """A scipy LinearOperator that multiplies numpy arrays with ``operator``."""
    from scipy.sparse.linalg import LinearOperator

    def multiply(array: Any) -> Any:
        tensor = torch.from_numpy(np.array(array)).to(operator.device, operator.dtype)
        return (operator @ tensor).cpu().numpy()

    def multiply_vector(array: Any) -> Any:
        return multiply(np.reshape(array, -1))

    return LinearOperator(
        shape=operator.shape,
        matvec=multiply_vector,
        rmatvec=multiply_vector,
        matmat=multiply,
        rmatmat=multiply,
        dtype=torch.empty(0, dtype=operator.dtype).numpy().dtype,
    )


def _torch_dtype(dtype: Any) -> torch.dtype:
    if isinstance(dtype, torch.dtype):
        return dtype
    if dtype is None:
        return torch.get_default_dtype()
    kind = np.dtype(dtype)
    return torch.float32 if kind == np.float32 else torch.float64
