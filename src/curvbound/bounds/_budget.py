"""The right-hand side that all kl-type bounds share: (nats + ln(constant/delta)) / n."""

import math
from typing import Literal, SupportsIndex, TypeAlias

from curvbound.bounds._checks import check_count, check_delta, check_nonnegative
from curvbound.bounds._rounding import divide_up, log_up, sqrt_up, sum_up, up
from curvbound.bounds.maurer_constant import maurer_xi
from curvbound.errors import CurvboundError

__all__ = ["Constant", "budget", "log_inverse"]

Constant: TypeAlias = Literal["maurer", "exact", "000", "001"]


def budget(
    nats: float, n: SupportsIndex, delta: float, *, constant: Constant, charge: float
) -> float:
    """Return (nats + charge + ln(constant(n)/delta)) / n, rounded up; negative where ``nats`` is.

    The forms are listed in :func:`curvbound.bounds.complexity`.
    """
    n, delta = check_count(n), check_delta(delta)
    charge = check_nonnegative(charge, "charge")
    numerator = sum_up((nats, charge, _log_constant(n, constant), log_inverse(delta)))
    return divide_up(numerator, n - 1 if constant == "001" else n)


def _log_constant(n: int, constant: str) -> float:
    """Return the logarithm of what stands over delta, rounded up."""
    if constant == "maurer":
        return log_up(2.0 * sqrt_up(n))
    if constant == "exact":
        return log_up(maurer_xi(n))
    if constant == "000":
        return log_up(2.0 * (_at_least(n, 3, constant) - 1))
    if constant == "001":
        return log_up(_at_least(n, 2, constant))
    raise CurvboundError(
        f'constant must be "maurer", "exact", "000" or "001", but is {constant!r}.'
    )


def _at_least(n: int, least: int, constant: str) -> int:
    if n < least:
        raise CurvboundError(
            f'the constant "{constant}" is proved for n >= {least} only, but n is {n}; '
            'use "maurer", which holds for every n.'
        )
    return n


def log_inverse(delta: float) -> float:
    """Return ln(1/delta), rounded up; also right where 1/delta would overflow."""
    return up(-math.log(delta), 2)
