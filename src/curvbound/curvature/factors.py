"""Curvature blocks of single layers, and the simple ones: a full matrix, a diagonal."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override

from curvbound.errors import CurvboundError

__all__ = ["Block", "DampedLogdet", "DenseBlock", "DiagonalBlock"]


@dataclass(frozen=True)
class DampedLogdet:
    """ln det(G + damping I) in two parts.

    Attributes:
        value: The log-determinant, ``damping_share + curvature_share``.
        damping_share: size * ln(damping), what it would be without any curvature.
        curvature_share: Sum of ln(1 + eigenvalue / damping).
        effective_rank: Sum of eigenvalue / (eigenvalue + damping).
    """

    value: float
    damping_share: float
    curvature_share: float
    effective_rank: float


class Block(ABC):
    """Curvature of one layer's parameters, positive semi-definite.

    Vectors are flat in the order of the layer's parameters (weight row-major, then bias); blocks of
    vectors are ``(size, k)``. In the eigenbasis, coordinates are in the order of
    :meth:`eigenvalues`.

    Attributes:
        name: Name of the layer.
        kind: ``kronecker``, ``dense`` or ``diagonal``.
        note: In words, what was calculated and what was neglected.
        size: Number of parameters.
        psd: True.
    """

    kind: str
    psd = True

    def __init__(self, name: str, size: int, note: str) -> None:
        self.name = name
        self.size = size
        self.note = note

    @property
    def shape(self) -> tuple[int, int]:
        """``(size, size)``."""
        return self.size, self.size

    @abstractmethod
    def __matmul__(self, vectors: Tensor) -> Tensor: ...

    @abstractmethod
    def diagonal(self) -> Tensor:
        """Diagonal, in parameter order."""

    @abstractmethod
    def eigenvalues(self, dtype: torch.dtype = torch.float64) -> Tensor:
        """All eigenvalues, in the order of the eigenbasis."""

    @abstractmethod
    def to_eigenbasis(self, vectors: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        """Coordinates of flat vectors ``(size,)`` or ``(size, k)`` in the eigenbasis."""

    @abstractmethod
    def from_eigenbasis(self, vectors: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        """The inverse of :meth:`to_eigenbasis`."""

    def trace(self) -> float:
        """Sum of the eigenvalues."""
        return float(self.diagonal().sum(dtype=torch.float64))

    def solve(self, vectors: Tensor, damping: float) -> Tensor:
        """(G + damping I)^-1 ``vectors``."""
        check_damping(damping)
        rotated = self.to_eigenbasis(vectors)
        values = self.eigenvalues() + damping
        rotated = rotated / (values if vectors.dim() == 1 else values.unsqueeze(1))
        return self.from_eigenbasis(rotated).to(vectors.dtype)

    def logdet(self, damping: float) -> DampedLogdet:
        """Logarithm of det(G + damping I), which without damping would be rounding noise."""
        return damped_logdet(self.eigenvalues(), damping)

    def _check(self, vectors: Tensor) -> None:
        if vectors.dim() not in (1, 2) or vectors.shape[0] != self.size:
            raise CurvboundError(
                f"Layer '{self.name}' has {self.size} parameters, but the vector has shape "
                f"{tuple(vectors.shape)}: pass ({self.size},) or ({self.size}, k)."
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}: {self.size} parameters; {self.note})"


def check_damping(damping: float) -> None:
    """Refuse a damping that is not positive."""
    if not damping > 0:
        raise CurvboundError(
            f"The damping is {damping}: it must be positive, because the output Hessian of a "
            "softmax is always singular."
        )


def damped_logdet(eigenvalues: Tensor, damping: float) -> DampedLogdet:
    """Log-determinant from eigenvalues, all in double precision."""
    check_damping(damping)
    values = eigenvalues.to(torch.float64)
    floor = values.numel() * float(torch.tensor(damping, dtype=torch.float64).log())
    rest = float((values / damping).log1p().sum())
    rank = float((values / (values + damping)).sum())
    return DampedLogdet(floor + rest, floor, rest, rank)


class DiagonalBlock(Block):
    """Exact diagonal; everything off it is neglected."""

    kind = "diagonal"

    def __init__(self, name: str, values: Tensor, note: str) -> None:
        super().__init__(name, len(values), note)
        self._values = values

    @override
    def __matmul__(self, vectors: Tensor) -> Tensor:
        self._check(vectors)
        values = self._values.to(vectors)
        return values * vectors if vectors.dim() == 1 else values.unsqueeze(1) * vectors

    @override
    def diagonal(self) -> Tensor:
        return self._values

    @override
    def eigenvalues(self, dtype: torch.dtype = torch.float64) -> Tensor:
        return self._values.to(dtype)

    @override
    def to_eigenbasis(self, vectors: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        self._check(vectors)
        return vectors.to(dtype)

    @override
    def from_eigenbasis(self, vectors: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        self._check(vectors)
        return vectors.to(dtype)


class DenseBlock(Block):
    """The exact Gauss-Newton block.

    Attributes:
        matrix: The block, ``(size, size)``.
    """

    kind = "dense"

    def __init__(self, name: str, matrix: Tensor, note: str) -> None:
        super().__init__(name, len(matrix), note)
        self.matrix = matrix
        self._eigen: dict[torch.dtype, tuple[Tensor, Tensor]] = {}

    @override
    def __matmul__(self, vectors: Tensor) -> Tensor:
        self._check(vectors)
        return self.matrix.to(vectors) @ vectors

    @override
    def diagonal(self) -> Tensor:
        return self.matrix.diagonal()

    def eigh(self, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
        """Eigenvalues, descending, and eigenvectors in columns."""
        if dtype not in self._eigen:
            self._eigen[dtype] = descending_eigh(self.matrix, dtype)
        return self._eigen[dtype]

    @override
    def eigenvalues(self, dtype: torch.dtype = torch.float64) -> Tensor:
        return self.eigh(dtype)[0]

    @override
    def to_eigenbasis(self, vectors: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        self._check(vectors)
        return self.eigh(dtype)[1].T @ vectors.to(dtype)

    @override
    def from_eigenbasis(self, vectors: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        self._check(vectors)
        return self.eigh(dtype)[1] @ vectors.to(dtype)


def descending_eigh(matrix: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Eigenvalues, largest first and not negative, and eigenvectors of a semi-definite matrix."""
    values, vectors = torch.linalg.eigh(matrix.to(dtype))
    return values.flip(-1).clamp(min=0), vectors.flip(-1)
