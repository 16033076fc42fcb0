"""Damped log-determinant and effective rank of a positive semi-definite operator."""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from curvbound.curvature.products import (
    EXACT_DIMENSION,
    Operator,
    Products,
    as_dense,
    require_count,
)
from curvbound.curvature.quadrature import Tridiagonal, tridiagonalise
from curvbound.curvature.trace import mean_estimate
from curvbound.errors import CurvboundError
from curvbound.estimates import Estimate

__all__ = ["LogDeterminant", "logdet"]

_DEFAULT_SAMPLES = 16


@dataclass(frozen=True)
class LogDeterminant(Estimate):
    """ln det(G + damping I), and what the damping has to do with it.

    Attributes:
        damping: The damping.
        effective_rank: Tr G (G + damping I)^-1, the directions that the operator decides.
        damping_share: The other directions as a part of all, 1 - effective_rank / P. It is how much
            the log-determinant grows per dimension and unit of ln(damping): near 1 the result says
            little about the operator and much about the damping.
        quadrature_error: Half the distance between the upper (Gauss) and lower (Gauss-Radau) ends
            of the quadrature, beside the standard error; 0.0 when computed exactly.
    """

    damping: float = math.nan
    effective_rank: Estimate = field(default_factory=lambda: Estimate(math.nan))
    damping_share: float = math.nan
    quadrature_error: float = 0.0


def logdet(
    G: Operator,
    damping: float,
    *,
    samples: int | None = None,
    steps: int = 200,
    seed: int = 0,
    tolerance: float = 1e-3,
    assume_psd: bool = False,
) -> LogDeterminant:
    """The log-determinant ln det(G + damping I) of a positive semi-definite operator.

    It is P ln(damping) + Tr ln(1 + G / damping): the first part is known, only the second is
    estimated, by stochastic Lanczos quadrature. Per probe the Gauss and Gauss-Radau rules bracket
    the quadratic form; the middle is used, and a probe stops once half the bracket is below
    ``tolerance`` of it. Up to 1024 dimensions without ``samples`` it is exact (P products).

    Args:
        G: Operator with ``shape`` and ``@`` that is known to be positive semi-definite: either
            its attribute ``psd`` is true, or ``assume_psd`` says so.
        damping: Positive number added to every eigenvalue. There is no default, since the result
            depends on it (softmax curvature is always singular).
        samples: Random probes, at least 2; ``None``: exact where affordable, else 16.
        steps: Most Lanczos steps (products and vectors in memory) per probe.
        seed: Seed of the probes.
        tolerance: Quadrature error at which a probe may stop, relative to Tr ln(1 + G / damping).
        assume_psd: Declare an operator without the attribute to be positive semi-definite.

    Raises:
        CurvboundError: If the operator may be or turns out to be indefinite, or an argument is out
            of range.

    >>> result = logdet(torch.eye(3, dtype=torch.float64), damping=1.0, assume_psd=True)
    >>> round(result.value / math.log(2), 12), result.effective_rank.value
    (3.0, 1.5)
    """
    if not (assume_psd or getattr(G, "psd", False) is True):
        raise CurvboundError(
            f"The log-determinant of {type(G).__name__} is not defined, since it may have negative "
            "eigenvalues: use a Gauss-Newton or Fisher operator, or say assume_psd=True if you "
            "know that it has none."
        )
    if not (math.isfinite(damping) and damping > 0):
        raise CurvboundError(f"damping is {damping!r}, but it must be a positive number.")
    if not 0 < tolerance < 1:
        raise CurvboundError(f"tolerance is {tolerance!r}, but it must lie between 0 and 1.")
    products = Products(G)
    if samples is None and products.dimension <= EXACT_DIMENSION:
        return _exact(products, damping)
    count = _DEFAULT_SAMPLES if samples is None else samples
    require_count(count, 2, "samples", "a standard error takes at least two probes")
    require_count(steps, 1, "steps", "Lanczos takes at least one step")

    def enough(probe: Tridiagonal) -> bool:
        lower, upper = _bracket(probe, damping)
        return upper - lower <= tolerance * (upper + lower)

    probes = tridiagonalise(products, count, steps, seed, enough)
    _require_psd(products, torch.cat([probe.gauss()[0] for probe in probes]))
    brackets = torch.tensor([_bracket(probe, damping) for probe in probes], dtype=torch.float64)
    forms = products.dimension * brackets.mean(dim=1)
    ranks = torch.stack([_rank_form(*probe.gauss(), damping) for probe in probes])
    value = mean_estimate(
        forms, seed, products.matvecs, offset=products.dimension * math.log(damping)
    )
    rank = mean_estimate(products.dimension * ranks, seed, products.matvecs)
    half = products.dimension * float(brackets.diff(dim=1).mean()) / 2
    return _result(value, products, damping, rank, half)


def _exact(products: Products, damping: float) -> LogDeterminant:
    eigenvalues = torch.linalg.eigvalsh(as_dense(products))
    _require_psd(products, eigenvalues)
    eigenvalues = eigenvalues.clamp(min=0)
    value = float((eigenvalues + damping).log().sum())
    rank = Estimate(float((eigenvalues / (eigenvalues + damping)).sum()), matvecs=products.matvecs)
    return _result(Estimate(value, matvecs=products.matvecs), products, damping, rank, 0.0)


def _result(
    value: Estimate, products: Products, damping: float, rank: Estimate, error: float
) -> LogDeterminant:
    return LogDeterminant(
        value.value,
        value.stderr,
        value.samples,
        value.seed,
        value.matvecs,
        damping=float(damping),
        effective_rank=rank,
        damping_share=1 - rank.value / products.dimension,
        quadrature_error=error,
    )


def _require_psd(products: Products, eigenvalues: Tensor) -> None:
    # Products in finite precision leave eigenvalues of zero slightly negative.
    noise = torch.finfo(products.dtype).eps ** 0.5 * float(eigenvalues.abs().max())
    least = float(eigenvalues.min())
    if least < -noise:
        raise CurvboundError(
            f"{products.name} is said to be positive semi-definite but has an "
            f"eigenvalue of at most {least:.3g}: its log-determinant is not defined."
        )


def _bracket(probe: Tridiagonal, damping: float) -> tuple[float, float]:
    """Lower and upper end of z^T ln(1 + G / damping) z."""
    upper = _log_form(*probe.gauss(), damping)
    if probe.complete:
        return upper, upper
    # A node below zero keeps the rule stable when zero itself is an eigenvalue.
    lower = _log_form(*probe.radau(-damping / 2), damping, clamp=False)
    return min(lower, upper), upper


def _log_form(nodes: Tensor, weights: Tensor, damping: float, *, clamp: bool = True) -> float:
    nodes = nodes.clamp(min=0) if clamp else nodes.clamp(min=-damping / 2)
    return float((weights * torch.log1p(nodes / damping)).sum())


def _rank_form(nodes: Tensor, weights: Tensor, damping: float) -> Tensor:
    nodes = nodes.clamp(min=0)
    return (weights * (nodes / (nodes + damping))).sum()
