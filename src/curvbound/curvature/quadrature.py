"""Stochastic Lanczos quadrature: z^T f(H) z from a tridiagonal matrix per random probe z."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from curvbound.curvature.lanczos import inner_products, norm
from curvbound.curvature.products import Products, require_symmetry, sample_signs

__all__ = ["Tridiagonal", "tridiagonalise"]

# Bases of several probes are kept side by side, for products in blocks, up to this many bytes.
_BASIS_BYTES = 2**29


@dataclass
class Tridiagonal:
    """Lanczos coefficients of one normalised probe.

    Attributes:
        diagonal: The alphas, one per step.
        coupling: The betas; the last one leads out of the Krylov space.
        complete: Whether the Krylov space is invariant: the quadrature is then exact.
    """

    diagonal: list[float] = field(default_factory=list)
    coupling: list[float] = field(default_factory=list)
    complete: bool = False

    def gauss(self) -> tuple[Tensor, Tensor]:
        """Nodes and weights of the Gauss rule; exact for polynomials of degree 2 steps - 1."""
        return _rule(self.diagonal, self.coupling[: len(self.diagonal) - 1])

    def radau(self, end: float) -> tuple[Tensor, Tensor]:
        """Nodes and weights of the Gauss-Radau rule with one node fixed at ``end``.

        With ``end`` below the spectrum and the Gauss rule it brackets z^T f(H) z whenever the
        derivatives of f alternate in sign, as those of the logarithm do.
        """
        if self.complete:
            return self.gauss()
        shifted = _matrix([alpha - end for alpha in self.diagonal], self.coupling[:-1])
        unit = torch.zeros(len(self.diagonal), dtype=torch.float64)
        unit[-1] = self.coupling[-1] ** 2
        last = end + float(torch.linalg.solve(shifted, unit)[-1])
        return _rule([*self.diagonal, last], self.coupling)

    def residuals(self) -> Tensor:
        """Residual norms of the Ritz vectors that belong to the Gauss nodes."""
        matrix = _matrix(self.diagonal, self.coupling[: len(self.diagonal) - 1])
        outward = 0.0 if self.complete else self.coupling[-1]
        vectors: Tensor = torch.linalg.eigh(matrix).eigenvectors
        return vectors[-1].abs() * outward


def tridiagonalise(
    products: Products,
    samples: int,
    steps: int,
    seed: int,
    enough: Callable[[Tridiagonal], bool] = lambda _: False,
) -> list[Tridiagonal]:
    """Lanczos with full reorthogonalisation from Rademacher probes scaled to unit length.

    Memory: ``steps`` vectors per probe, several probes at a time up to 512 MiB.

    Args:
        products: The operator.
        samples: Number of probes.
        steps: Most Lanczos steps per probe.
        seed: Seed of the probes.
        enough: Asked after every step whether a probe may stop.
    """
    steps = min(steps, products.dimension)
    bytes_per_probe = steps * products.dimension * products.dtype.itemsize
    together = max(1, min(samples, products.block, _BASIS_BYTES // bytes_per_probe))
    generator = torch.Generator().manual_seed(seed)
    results: list[Tridiagonal] = []
    for first in range(0, samples, together):
        signs = sample_signs(products, generator, min(together, samples - first))
        results += _tridiagonalise_together(products, signs.T, steps, enough)
    return results


def _tridiagonalise_together(
    products: Products, signs: Tensor, steps: int, enough: Callable[[Tridiagonal], bool]
) -> list[Tridiagonal]:
    count, dimension = signs.shape
    bases = torch.empty(count, steps, dimension, dtype=signs.dtype, device=signs.device)
    bases[:, 0] = signs / dimension**0.5
    results = [Tridiagonal() for _ in range(count)]
    active = list(range(count))
    for step in range(steps):
        images = products(bases[active, step].T).T
        going_on = []
        for probe, image in zip(active, images, strict=True):
            following = _advance(products, bases[probe], step, image, results[probe])
            if following is None or enough(results[probe]):
                continue
            if step + 1 < steps:
                bases[probe, step + 1] = following
            going_on.append(probe)
        active = going_on
        if not active:
            break
    return results


def _advance(
    products: Products, basis: Tensor, step: int, image: Tensor, result: Tridiagonal
) -> Tensor | None:
    """Enter one Lanczos step; the next basis vector, or ``None`` if the space is invariant."""
    known = basis[: step + 1]
    scale = max(norm(image), *map(abs, result.diagonal), *result.coupling, 0.0)
    coefficients = inner_products(known, image[None])[:, 0]
    if step:
        difference = abs(float(coefficients[step - 1]) - result.coupling[-1])
        require_symmetry(products, difference, scale)
    result.diagonal.append(float(coefficients[step]))
    image = image - coefficients.to(image.dtype) @ known
    image = image - inner_products(known, image[None])[:, 0].to(image.dtype) @ known
    length = norm(image)
    result.coupling.append(length)
    noise = 64 * torch.finfo(image.dtype).eps * scale
    if length <= noise or step + 1 == products.dimension:
        result.complete = True
        return None
    image = image / length
    image = image - inner_products(known, image[None])[:, 0].to(image.dtype) @ known
    return image / norm(image)


def _matrix(diagonal: list[float], coupling: list[float]) -> Tensor:
    inner = torch.tensor(coupling, dtype=torch.float64)
    matrix = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    if len(inner):
        matrix = matrix + torch.diag(inner, 1) + torch.diag(inner, -1)
    return matrix


def _rule(diagonal: list[float], coupling: list[float]) -> tuple[Tensor, Tensor]:
    nodes, vectors = torch.linalg.eigh(_matrix(diagonal, coupling))
    return nodes, vectors[0].square()
