"""Dense operators with a prescribed spectrum that count the products taken with them."""

import torch
from torch import Tensor


class CountingOperator:
    """A dense or diagonal symmetric matrix behind ``.shape`` and ``@``."""

    def __init__(self, matrix: Tensor, *, psd: bool = False) -> None:
        size = matrix.shape[0]
        self.matrix = matrix
        self.shape = (size, size)
        self.dtype = matrix.dtype
        self.device = matrix.device
        self.psd = psd
        self.matvecs = 0

    def __matmul__(self, vectors: Tensor) -> Tensor:
        self.matvecs += 1 if vectors.ndim == 1 else vectors.shape[1]
        if self.matrix.ndim == 2:
            return self.matrix @ vectors
        return self.matrix * vectors if vectors.ndim == 1 else self.matrix[:, None] * vectors


def rotation(size: int, seed: int) -> Tensor:
    """A Haar-distributed orthogonal float64 matrix."""
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(size, size, dtype=torch.float64, generator=generator)
    Q, R = torch.linalg.qr(normal)
    return Q * R.diagonal().sign()


def with_spectrum(eigenvalues: Tensor, seed: int = 0) -> Tensor:
    """A dense symmetric float64 matrix with these eigenvalues and random eigenvectors."""
    Q = rotation(len(eigenvalues), seed)
    matrix = (Q * eigenvalues.double()) @ Q.T
    return (matrix + matrix.T) / 2


def outliers_and_bulk(size: int) -> Tensor:
    """The shape of a trained network's Hessian spectrum: ten outliers above a decaying bulk."""
    generator = torch.Generator().manual_seed(0)
    outliers = torch.tensor([30, 22, 18, 15, 12, 10, 8, 7, 6, 5], dtype=torch.float64)
    bulk = torch.rand(size - 10, generator=generator, dtype=torch.float64) ** 6
    return torch.cat([outliers, bulk])


def kronecker_decay(rows: int = 200, columns: int = 784) -> Tensor:
    """Eigenvalues lambda_i mu_j as of a first dense layer: few strong outputs, decaying inputs."""
    generator = torch.Generator().manual_seed(0)
    jitter = 1 + 0.2 * torch.rand(rows + columns, generator=generator, dtype=torch.float64)
    strong = torch.arange(1, 10, dtype=torch.float64) ** -0.7
    weak = 0.03 * torch.arange(1, rows - 8, dtype=torch.float64) ** -1.0
    inputs = torch.arange(1, columns + 1, dtype=torch.float64) ** -1.3
    outputs = torch.cat([strong, weak]) * jitter[:rows]
    return torch.outer(outputs, inputs * jitter[rows:]).flatten()
