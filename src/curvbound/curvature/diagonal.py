"""Diagonals of curvature matrices."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from curvbound.curvature.fisher import uniform_numbers
from curvbound.curvature.hessian import Hessian, hessian
from curvbound.curvature.square_pass import output_roots, sum_squares
from curvbound.errors import CurvboundError
from curvbound.landscape import Landscape

__all__ = ["DiagonalEstimate", "diagonal", "hessian_diagonal"]

# Up to this many curved parameters the Hessian is probed with every unit vector.
EXACT_LIMIT = 1024
# Vectors per block product.
BLOCK = 64


@dataclass(frozen=True)
class DiagonalEstimate:
    """A diagonal and how well it is known.

    Attributes:
        values: The diagonal, flat, in parameter order.
        stderr: Standard error of every entry; zero where the entry is exact.
        samples: Random probes; 0 when all is exact.
        seed: Seed of the probes, None when all is exact.
        matvecs: Hessian-vector products spent.
    """

    values: Tensor
    stderr: Tensor
    samples: int
    seed: int | None
    matvecs: int


def diagonal(
    land: Landscape,
    kind: Literal["gauss_newton", "hessian", "fisher"] = "gauss_newton",
    *,
    samples: int | None = None,
    seed: int = 0,
) -> Tensor:
    """Diagonal of a curvature matrix of the mean loss, a flat vector in parameter order.

    >>> import torch
    >>> land = Landscape(torch.nn.Linear(3, 2), (torch.randn(6, 3), torch.tensor([0, 1] * 3)))
    >>> diagonal(land).shape
    torch.Size([8])

    Args:
        land: The landscape.
        kind: ``gauss_newton``: exact. ``hessian``: exact where a layer's Hessian block is its
            Gauss-Newton block or the network is small; otherwise it must be estimated, see
            :func:`hessian_diagonal`, which also gives the error. ``fisher``: 000 eq. 10 with labels
            drawn from the network's predictions, as a mean over examples (000-E11).
        samples: Labels per example for ``fisher`` (default 1); probes for ``hessian``.
        seed: Of the labels or probes.
    """
    if samples is not None and samples < 1:
        raise CurvboundError(f"samples must be at least 1, not {samples}.")
    if kind == "gauss_newton":
        return _gauss_newton(land)
    if kind == "fisher":
        return _sampled_fisher(land, samples or 1, seed)
    if kind == "hessian":
        return hessian_diagonal(land, samples=samples, seed=seed).values
    raise CurvboundError(f"kind must be gauss_newton, hessian or fisher, not '{kind}'.")


def _gauss_newton(land: Landscape) -> Tensor:
    return _flat(land, sum_squares(land, tuple(land.parameters), output_roots(land)))


def _sampled_fisher(land: Landscape, samples: int, seed: int) -> Tensor:
    loss = land.output_loss

    def cotangents(outputs: Tensor, targets: Tensor, start: int) -> Tensor:
        drawn = [
            loss.sample(outputs, targets, uniform_numbers(seed, sample, start, targets))
            for sample in range(samples)
        ]
        gradients = [loss.gradient(outputs, labels) for labels in drawn]
        return torch.stack(gradients) / math.sqrt(samples)

    return _flat(land, sum_squares(land, tuple(land.parameters), cotangents))


def _flat(land: Landscape, squares: dict[str, Tensor]) -> Tensor:
    joined = torch.cat([squares[name].reshape(-1) for name in land.parameters])
    return (joined / land.terms).to(land.dtype)


def hessian_diagonal(
    land: Landscape, *, samples: int | None = None, seed: int = 0
) -> DiagonalEstimate:
    """Diagonal of the Hessian of the mean loss, with standard errors.

    Layers whose Hessian block is known to equal their Gauss-Newton block (001-E3) are exact. The
    others are probed: exactly with all unit vectors when ``samples`` is None, else by Hutchinson's
    mean of z * (H z) over random signs z (restricted to these layers, which keeps the noise of the
    others out).

    Raises:
        CurvboundError: If ``samples`` is None and there are too many parameters to probe.
    """
    curved = [name for name in land.layers if not land.block_is_gauss_newton(name)]
    values = torch.zeros(land.size, dtype=land.dtype, device=land.device)
    stderr = torch.zeros_like(values)
    if len(curved) < len(land.layers):
        values = _gauss_newton(land)
    if not curved:
        return DiagonalEstimate(values, stderr, 0, None, 0)
    operator = hessian(land, layer=curved)
    if samples is None:
        part, error = _unit_vectors(operator)
    else:
        part, error = _hutchinson(operator, samples, seed)
    start = 0
    for name in operator.names:
        where = land.slices[name]
        stop = start + where.stop - where.start
        values[where], stderr[where] = part[start:stop], error[start:stop]
        start = stop
    if samples is None:
        return DiagonalEstimate(values, stderr, 0, None, operator.matvecs)
    return DiagonalEstimate(values, stderr, samples, seed, operator.matvecs)


def _unit_vectors(operator: Hessian) -> tuple[Tensor, Tensor]:
    size = operator.shape[0]
    if size > EXACT_LIMIT:
        raise CurvboundError(
            f"The Hessian differs from the Gauss-Newton matrix for {size} parameters, too many for "
            "an exact diagonal: pass samples= for an estimate, or use kind='gauss_newton'."
        )
    values = torch.empty(size, dtype=operator.dtype, device=operator.device)
    for start in range(0, size, BLOCK):
        rows = torch.arange(start, min(start + BLOCK, size), device=operator.device)
        unit = torch.zeros(size, len(rows), dtype=operator.dtype, device=operator.device)
        unit[rows, rows - start] = 1
        values[rows] = (operator @ unit)[rows, rows - start]
    return values, torch.zeros_like(values)


def _hutchinson(operator: Hessian, samples: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = operator.shape[0]
    total = torch.zeros(shape, dtype=torch.float64, device=operator.device)
    squares = torch.zeros_like(total)
    for start in range(0, samples, BLOCK):
        count = min(BLOCK, samples - start)
        # One column after the other, so that the probes do not depend on the block size.
        signs = [torch.randint(2, (shape,), generator=generator) * 2 - 1 for _ in range(count)]
        z = torch.stack(signs, 1).to(operator.device, operator.dtype)
        products = (z * (operator @ z)).to(torch.float64)
        total += products.sum(1)
        squares += products.square().sum(1)
    mean = total / samples
    if samples == 1:
        return mean.to(operator.dtype), torch.full_like(mean, torch.inf).to(operator.dtype)
    variance = (squares / samples - mean.square()).clamp(min=0) * samples / (samples - 1)
    return mean.to(operator.dtype), (variance / samples).sqrt().to(operator.dtype)
