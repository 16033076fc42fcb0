"""Curvature block of one layer as a Kronecker product of an output and an input factor."""

from typing import NamedTuple

import torch
from torch import Tensor
from typing_extensions import override

from curvbound.curvature.factors import Block, descending_eigh

__all__ = ["KroneckerBlock", "KroneckerEigen"]


class KroneckerEigen(NamedTuple):
    """Eigendecompositions of both factors, eigenvalues descending, eigenvectors in columns."""

    output_values: Tensor
    output_vectors: Tensor
    input_values: Tensor
    input_vectors: Tensor


class KroneckerBlock(Block):
    """E[M] kron E[x x^T] (001 eq. 6); with groups, one such product per group.

    Attributes:
        output: E[M], ``(m, m)``; ``(groups, m, m)`` for a grouped convolution.
        input: E[x x^T], ``(n, n)``, the bias as last column and row; with groups ahead likewise.
    """

    kind = "kronecker"

    def __init__(
        self,
        name: str,
        output: Tensor,
        input: Tensor,  # noqa: A002
        *,
        weight: bool,
        bias: bool,
        note: str,
    ) -> None:
        self._output, self._input = output, input
        self.groups, self.height = output.shape[:2]
        self.width = input.shape[1]
        self._weight, self._bias = weight, bias
        super().__init__(name, self.groups * self.height * self.width, note)
        self._eigen: dict[torch.dtype, KroneckerEigen] = {}

    @property
    def output(self) -> Tensor:
        """E[M]."""
        return self._output[0] if self.groups == 1 else self._output

    @property
    def input(self) -> Tensor:
        """E[x x^T]."""
        return self._input[0] if self.groups == 1 else self._input

    def to_matrix(self, vectors: Tensor) -> Tensor:
        """Flat vectors as matrices ``(k, groups, m, n)`` with the bias as last column."""
        self._check(vectors)
        rows = vectors.unsqueeze(1) if vectors.dim() == 1 else vectors
        k = rows.shape[1]
        if not (self._weight and self._bias):
            return rows.T.reshape(k, self.groups, self.height, self.width)
        split = self.groups * self.height * (self.width - 1)
        weight = rows[:split].T.reshape(k, self.groups, self.height, self.width - 1)
        bias = rows[split:].T.reshape(k, self.groups, self.height, 1)
        return torch.cat([weight, bias], 3)

    def from_matrix(self, matrices: Tensor) -> Tensor:
        """The inverse of :meth:`to_matrix`, ``(size, k)``."""
        k = len(matrices)
        if not (self._weight and self._bias):
            return matrices.reshape(k, -1).T
        weight = matrices[..., :-1].reshape(k, -1)
        return torch.cat([weight, matrices[..., -1].reshape(k, -1)], 1).T

    @override
    def __matmul__(self, vectors: Tensor) -> Tensor:
        output, inputs = self._output.to(vectors), self._input.to(vectors)
        product = self.from_matrix(output @ self.to_matrix(vectors) @ inputs)
        return product[:, 0] if vectors.dim() == 1 else product

    @override
    def diagonal(self) -> Tensor:
        output, inputs = self._output.diagonal(dim1=1, dim2=2), self._input.diagonal(dim1=1, dim2=2)
        return self.from_matrix((output.unsqueeze(2) * inputs.unsqueeze(1)).unsqueeze(0))[:, 0]

    @override
    def trace(self) -> float:
        output = self._output.diagonal(dim1=1, dim2=2).sum(1, dtype=torch.float64)
        inputs = self._input.diagonal(dim1=1, dim2=2).sum(1, dtype=torch.float64)
        return float(output @ inputs)

    def eigh(self, dtype: torch.dtype = torch.float64) -> KroneckerEigen:
        """Eigendecompositions of both factors; kept, because they cost more than the factors."""
        if dtype not in self._eigen:
            both = (*descending_eigh(self._output, dtype), *descending_eigh(self._input, dtype))
            one = self.groups == 1
            self._eigen[dtype] = KroneckerEigen(*(part[0] if one else part for part in both))
        return self._eigen[dtype]

    @override
    def eigenvalues(self, dtype: torch.dtype = torch.float64) -> Tensor:
        eigen = self.eigh(dtype)
        return (eigen.output_values.unsqueeze(-1) * eigen.input_values.unsqueeze(-2)).reshape(-1)

    @override
    def to_eigenbasis(self, vectors: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        """U^T W V for W ``(m, n)``, a flat vector or a block of flat vectors (001 eq. 47)."""
        eigen = self.eigh(dtype)
        U, V = eigen.output_vectors, eigen.input_vectors
        if self._is_matrix(vectors):
            return U.T @ vectors.to(dtype) @ V
        rotated = U.mT @ self.to_matrix(vectors.to(dtype)) @ V
        flat = rotated.reshape(len(rotated), -1).T
        return flat[:, 0] if vectors.dim() == 1 else flat

    @override
    def from_eigenbasis(self, vectors: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        """U W V^T, the inverse of :meth:`to_eigenbasis` (001 eq. 48)."""
        eigen = self.eigh(dtype)
        U, V = eigen.output_vectors, eigen.input_vectors
        if self._is_matrix(vectors):
            return U @ vectors.to(dtype) @ V.T
        self._check(vectors)
        rows = vectors.unsqueeze(1) if vectors.dim() == 1 else vectors
        matrices = rows.to(dtype).T.reshape(-1, self.groups, self.height, self.width)
        flat = self.from_matrix(U @ matrices @ V.mT)
        return flat[:, 0] if vectors.dim() == 1 else flat

    def _is_matrix(self, vectors: Tensor) -> bool:
        return self.groups == 1 and vectors.shape == (self.height, self.width)
