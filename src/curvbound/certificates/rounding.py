"""Numbers as they are printed: bounds rounded up, confidences and shares rounded down.

A float is taken for the decimal number that it is printed as: 0.05 is five per cent, not the
binary fraction next to it.
"""

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

__all__ = ["ceiling", "confidence_left", "confidence_text", "floor_percent", "total_delta"]


def ceiling(value: float, digits: int = 4) -> str:
    """Print a bound rounded up, never down.

    >>> ceiling(0.12341), ceiling(0.1234), ceiling(1.0)
    ('0.1235', '0.1234', '1.0000')
    """
    if not math.isfinite(value):
        return str(value)
    return f"{_decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_CEILING):f}"


def floor_percent(share: float, digits: int = 2) -> str:
    """Print a share of something good in per cent, rounded down.

    >>> floor_percent(0.99999), floor_percent(1.0)
    ('99.99 %', '100.00 %')
    """
    percent = (100 * _decimal(share)).quantize(Decimal(1).scaleb(-digits), ROUND_FLOOR)
    return f"{percent:f} %"


def total_delta(amounts: Iterable[float]) -> Decimal:
    """The sum of failure probabilities, exactly.

    >>> total_delta([0.04, 0.01])
    Decimal('0.05')
    """
    return sum(map(_decimal, amounts), Decimal(0))


def confidence_left(amounts: Iterable[float]) -> float:
    """One minus the failure probabilities, rounded down.

    >>> confidence_left([0.04, 0.01]), confidence_left([1e-20]) < 1.0
    (0.95, True)
    """
    exact = 1 - total_delta(amounts)
    value = float(exact)
    return value if _decimal(value) <= exact else math.nextafter(value, 0.0)


def confidence_text(amounts: Iterable[float]) -> str:
    """A confidence in per cent, all its digits, or ten after the point and rounded down.

    >>> confidence_text([0.04, 0.01]), confidence_text([1e-7]), confidence_text([1e-30])
    ('95 %', '99.99999 %', '99.9999999999 %')
    """
    percent = 100 * (1 - total_delta(amounts))
    shown = f"{percent.quantize(Decimal('1e-10'), ROUND_FLOOR):f}".rstrip("0").rstrip(".")
    return f"{shown} %"


def _decimal(value: float) -> Decimal:
    return Decimal(repr(float(value)))
