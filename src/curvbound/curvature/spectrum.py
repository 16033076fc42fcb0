"""Spectral density of a curvature operator by stochastic Lanczos quadrature (004-C5)."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from curvbound.curvature.products import Operator, Products, require_count
from curvbound.curvature.quadrature import Tridiagonal, tridiagonalise
from curvbound.curvature.trace import mean_estimate
from curvbound.errors import CurvboundError
from curvbound.estimates import Estimate

__all__ = ["Spectrum", "spectrum"]

# A Ritz value counts as an eigenvalue once its residual is this small against the spectral range.
_RESOLVED = 1e-3
# An outlier keeps this many kernel widths away from the bulk: its bump is then a separate one.
_SEPARATION = 3.0


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The distribution of the eigenvalues, all tensors float64 on the CPU.

    Attributes:
        grid: Points at which the density is given.
        density: Density of the eigenvalues, smoothed by a Gaussian kernel; its integral is 1.
        density_stderr: Its standard error over the probes, point by point.
        width: Standard deviation of the kernel.
        nodes: Quadrature nodes (Ritz values), one tensor per probe.
        weights: Their weights, which sum to 1 per probe.
        outliers: Eigenvalues separated from the bulk that every probe resolves, descending.
        dimension: Number of eigenvalues P.
        seed: Seed of the probes.
        matvecs: Matrix-vector products spent.
    """

    grid: Tensor
    density: Tensor
    density_stderr: Tensor
    width: float
    nodes: tuple[Tensor, ...]
    weights: tuple[Tensor, ...]
    outliers: Tensor
    dimension: int
    seed: int
    matvecs: int

    def trace_of(self, function: Callable[[Tensor], Tensor]) -> Estimate:
        """Tr f(H), the sum of a function over all eigenvalues, with its standard error.

        Exact in the mean for polynomials of degree below twice the number of steps.
        """
        sums = [
            self.dimension * (weights * function(nodes)).sum()
            for nodes, weights in zip(self.nodes, self.weights, strict=True)
        ]
        return mean_estimate(torch.stack(sums), self.seed, self.matvecs)


def spectrum(
    H: Operator,
    *,
    samples: int = 8,
    steps: int = 100,
    width: float | None = None,
    points: int = 1024,
    seed: int = 0,
) -> Spectrum:
    """The spectral density of a symmetric operator by stochastic Lanczos quadrature.

    A Rademacher probe z of unit length sees the eigenvalues with weights (z^T u_i)^2, of mean 1/P.
    Lanczos from z gives the Gauss rule of that measure: ``steps`` Ritz values and their weights
    (squared first components). The average over the probes is the estimate; the spread between them
    gives the standard errors.

    Cost: ``samples * steps`` products. Memory: ``steps`` vectors of length P per probe; several
    probes share block products as long as this stays below 512 MiB.

    Args:
        H: Symmetric operator with ``shape`` and ``@``.
        samples: Random probes, at least 2.
        steps: Lanczos steps per probe.
        width: Standard deviation of the smoothing kernel, by default 1/200 of the spectral range.
        points: Points of the grid.
        seed: Seed of the probes.

    >>> density = spectrum(torch.diag(torch.arange(50.0)), samples=4, steps=20)
    >>> bool(abs(density.trace_of(lambda x: x).value - 1225) < 1e-6)
    True
    """
    require_count(samples, 2, "samples", "a standard error takes at least two probes")
    require_count(steps, 1, "steps", "Lanczos takes at least one step")
    require_count(points, 2, "points", "a grid has at least two points")
    if width is not None and not (math.isfinite(width) and width > 0):
        raise CurvboundError(f"width is {width!r}, but the smoothing kernel needs a positive one.")
    products = Products(H)
    probes = tridiagonalise(products, samples, steps, seed)
    rules = [probe.gauss() for probe in probes]
    pooled = torch.cat([nodes for nodes, _ in rules]).sort().values
    low, high = float(pooled[0]), float(pooled[-1])
    if width is None:
        # A multiple of the identity has no range: fall back on its size.
        width = (high - low) / 200 or abs(high) / 200 or 1.0
    grid = torch.linspace(low - 5 * width, high + 5 * width, points, dtype=torch.float64)
    curves = torch.stack([_smoothed(grid, nodes, weights, width) for nodes, weights in rules])
    return Spectrum(
        grid=grid,
        density=curves.mean(dim=0),
        density_stderr=curves.std(dim=0, correction=1) / math.sqrt(samples),
        width=width,
        nodes=tuple(nodes for nodes, _ in rules),
        weights=tuple(weights for _, weights in rules),
        outliers=_outliers(probes, rules, pooled, _SEPARATION * width),
        dimension=products.dimension,
        seed=seed,
        matvecs=products.matvecs,
    )


def _smoothed(grid: Tensor, nodes: Tensor, weights: Tensor, width: float) -> Tensor:
    distance = (grid[:, None] - nodes[None, :]) / width
    return (-0.5 * distance.square()).exp() @ weights / (width * math.sqrt(2 * math.pi))


def _outliers(
    probes: list[Tridiagonal], rules: list[tuple[Tensor, Tensor]], pooled: Tensor, gap: float
) -> Tensor:
    """Eigenvalues beyond the first gap on either side of the bulk, in the first probe's digits.

    The bulk is the connected run of nodes (no gap wider than ``gap``) around the median of the
    measure. Outside it a value must be resolved by every probe, so that no artefact is counted.
    """
    low, high = _bulk(rules, pooled, gap)
    range_ = float(pooled[-1] - pooled[0])
    found: list[Tensor] = []
    for probe, (nodes, _) in zip(probes, rules, strict=True):
        resolved = probe.residuals() <= _RESOLVED * range_
        found.append(nodes[resolved & ((nodes < low) | (nodes > high))])
    kept = [
        value
        for value in found[0].flip(0)
        if all(bool(((other - value).abs() <= _RESOLVED * range_).any()) for other in found)
    ]
    return torch.stack(kept) if kept else torch.zeros(0, dtype=torch.float64)


def _bulk(rules: list[tuple[Tensor, Tensor]], pooled: Tensor, gap: float) -> tuple[float, float]:
    nodes = torch.cat([nodes for nodes, _ in rules])
    order = nodes.argsort()
    mass = torch.cat([weights for _, weights in rules])[order].cumsum(0) / len(rules)
    median = int((mass < 0.5).sum().clamp(max=len(pooled) - 1))
    wide = pooled.diff() > gap
    below = wide[:median].nonzero()
    above = wide[median:].nonzero()
    low = pooled[int(below[-1]) + 1] if len(below) else pooled[0]
    high = pooled[median + int(above[0])] if len(above) else pooled[-1]
    return float(low), float(high)
