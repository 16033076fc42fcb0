"""Trace and Frobenius norm of a curvature operator (004-C3), exact where that is affordable."""

import math
from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from curvbound.curvature.products import (
    EXACT_DIMENSION,
    Operator,
    Products,
    require_count,
    sample_signs,
    unit_blocks,
)
from curvbound.errors import CurvboundError
from curvbound.estimates import Estimate

__all__ = ["frobenius_squared", "mean_estimate", "trace"]

_DEFAULT_SAMPLES = 100


def trace(
    H: Operator,
    *,
    samples: int | None = None,
    seed: int = 0,
    method: Literal["hutchinson", "hutch++"] | None = None,
) -> Estimate:
    """The trace of an operator.

    Without ``samples`` it is exact where that is affordable: an operator that offers
    ``exact_trace()`` is asked for it (Tr H = Tr G for piecewise-linear networks, 001-E3), and up to
    1024 dimensions every unit vector is multiplied. Beyond that it is estimated.

    * Hutchinson: the mean of z^T H z over Rademacher z. Unbiased; one probe has the variance
      2 (||H||_F^2 - sum_i H_ii^2) (004-E14).
    * Hutch++: a third of the products finds a subspace Q that holds most of H, a third gives its
      trace Tr(Q^T H Q) exactly, and the rest are Hutchinson probes on the complement. Unbiased;
      better wherever few eigenvalues dominate, as they do in trained networks.

    Args:
        H: Operator with ``shape`` and ``@``.
        samples: Products to spend, at least 2 (6 for Hutch++); ``None``: exact where affordable,
            100 products otherwise.
        seed: Seed of the probes.
        method: By default Hutchinson if ``samples`` is given and Hutch++ if not.

    Returns:
        Value, standard error over the random probes (0.0 if exact), number of probes, products.

    >>> float(trace(torch.diag(torch.arange(5.0))))
    10.0
    """
    if method not in (None, "hutchinson", "hutch++"):
        raise CurvboundError(f"method is {method!r}, but must be 'hutchinson' or 'hutch++'.")
    products = Products(H)
    if samples is None and method is None:
        exact = _exact_trace(H, products)
        if exact is not None:
            return exact
        method = "hutch++"
    count = _DEFAULT_SAMPLES if samples is None else samples
    if method == "hutch++":
        return _hutch_plus_plus(products, count, seed)
    require_count(count, 2, "samples", "a standard error takes at least two probes")
    generator = torch.Generator().manual_seed(seed)
    forms = [
        (signs * image).sum(0, dtype=torch.float64).cpu()
        for signs, image in _probe_blocks(products, generator, count)
    ]
    return mean_estimate(torch.cat(forms), seed, products.matvecs)


def frobenius_squared(H: Operator, *, samples: int | None = None, seed: int = 0) -> Estimate:
    """The squared Frobenius norm ||H||_F^2, the sum of the squared eigenvalues.

    Up to 1024 dimensions without ``samples`` it is exact. Otherwise it is the mean of ||H z||^2
    over Rademacher z: unbiased, with the variance 2 (||H^2||_F^2 - sum_i (H^2)_ii^2) per probe.

    Args:
        H: Operator with ``shape`` and ``@``.
        samples: Probes, one product each, at least 2; ``None``: exact where affordable, else 100.
        seed: Seed of the probes.

    >>> float(frobenius_squared(torch.diag(torch.arange(4.0))))
    14.0
    """
    products = Products(H)
    if samples is None and products.dimension <= EXACT_DIMENSION:
        squares = [float(_squared_norms(image).sum()) for _, image in unit_blocks(products)]
        return Estimate(math.fsum(squares), matvecs=products.matvecs)
    count = _DEFAULT_SAMPLES if samples is None else samples
    require_count(count, 2, "samples", "a standard error takes at least two probes")
    generator = torch.Generator().manual_seed(seed)
    norms = [_squared_norms(image) for _, image in _probe_blocks(products, generator, count)]
    return mean_estimate(torch.cat(norms), seed, products.matvecs)


def mean_estimate(values: Tensor, seed: int, matvecs: int, offset: float = 0.0) -> Estimate:
    """The mean of independent float64 values (plus a known offset) with its standard error."""
    count = len(values)
    stderr = float(values.std(correction=1)) / math.sqrt(count)
    return Estimate(offset + float(values.mean()), stderr, count, seed, matvecs)


def _exact_trace(H: Operator, products: Products) -> Estimate | None:
    offered = getattr(H, "exact_trace", lambda: None)()
    if offered is not None:
        return Estimate(float(offered))
    if products.dimension > EXACT_DIMENSION:
        return None
    diagonal = [
        float(image[first + column, column])
        for first, image in unit_blocks(products)
        for column in range(image.shape[1])
    ]
    return Estimate(math.fsum(diagonal), matvecs=products.matvecs)


def _probe_blocks(
    products: Products, generator: torch.Generator, count: int
) -> Iterator[tuple[Tensor, Tensor]]:
    for first in range(0, count, products.block):
        signs = sample_signs(products, generator, min(products.block, count - first))
        yield signs, products(signs)


def _squared_norms(columns: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(columns, dim=0, dtype=torch.float64)
    return norms.square().cpu()


def _hutch_plus_plus(products: Products, samples: int, seed: int) -> Estimate:
    require_count(samples, 6, "samples", "Hutch++ splits its products in three parts of at least 2")
    generator = torch.Generator().manual_seed(seed)
    rank = min(samples // 3, products.dimension)
    sketch = torch.cat([image for _, image in _probe_blocks(products, generator, rank)], dim=1)
    frame = torch.linalg.qr(sketch).Q
    inside = math.fsum(
        float((part * products(part)).sum(dtype=torch.float64))
        for part in frame.split(products.block, dim=1)
    )
    count = samples - 2 * rank
    forms = []
    for first in range(0, count, products.block):
        probes = sample_signs(products, generator, min(products.block, count - first))
        probes = probes - frame @ (frame.T @ probes)
        forms.append((probes * products(probes)).sum(0, dtype=torch.float64).cpu())
    return mean_estimate(torch.cat(forms), seed, products.matvecs, offset=inside)
