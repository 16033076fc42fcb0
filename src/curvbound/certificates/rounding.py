"""Numbers as they are printed: bounds rounded up, confidences and shares rounded down.

A float is taken for the decimal number that it is printed as: 0.05 is five per cent, not the
binary fraction next to it.
"""

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import reduce

__all__ = ["ceiling", "confidence_left", "confidence_text", "floor_percent", "total_delta"]

_EXACT = Context(prec=400)
"""Enough digits for sums of all floats between 0 and 1, down to the smallest one."""


def ceiling(value: float, digits: int = 4) -> str:
    """Print a bound rounded up, never down.

    >>> ceiling(0.12341), ceiling(0.1234), ceiling(1.0)
    ('0.1235', '0.1234', '1.0000')
    """
    if not math.isfinite(value):
        return str(value)
    return _rounded(_decimal(value), digits, ROUND_CEILING)


def floor_percent(share: float, digits: int = 2) -> str:
    """Print a share of something good in per cent, rounded down.

    >>> floor_percent(0.99999), floor_percent(1.0)
    ('99.99 %', '100.00 %')
    """
    return f"{_rounded(_EXACT.multiply(100, _decimal(share)), digits, ROUND_FLOOR)} %"


def total_delta(amounts: Iterable[float]) -> Decimal:
    """The sum of failure probabilities, exactly.

    >>> total_delta([0.04, 0.01])
    Decimal('0.05')
    """
    return reduce(_EXACT.add, map(_decimal, amounts), Decimal(0))


def confidence_left(amounts: Iterable[float]) -> float:
    """One minus the failure probabilities, rounded down.

    >>> confidence_left([0.04, 0.01]), confidence_left([1e-20]) < 1.0
    (0.95, True)
    """
    exact = _EXACT.subtract(1, total_delta(amounts))
    value = float(exact)
    return value if _decimal(value) <= exact else math.nextafter(value, 0.0)


def confidence_text(amounts: Iterable[float]) -> str:
    """A confidence in per cent, all its digits, or ten after the point and rounded down.

    >>> confidence_text([0.04, 0.01]), confidence_text([1e-7]), confidence_text([1e-30])
    ('95 %', '99.99999 %', '99.9999999999 %')
    """
    percent = _EXACT.multiply(100, _EXACT.subtract(1, total_delta(amounts)))
    return f"{_rounded(percent, 10, ROUND_FLOOR).rstrip('0').rstrip('.')} %"


def _rounded(value: Decimal, digits: int, direction: str) -> str:
    return f"{value.quantize(Decimal(1).scaleb(-digits), direction, _EXACT):f}"


def _decimal(value: float) -> Decimal:
    return Decimal(repr(float(value)))
