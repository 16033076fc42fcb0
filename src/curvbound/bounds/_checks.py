"""Input checks shared by all bounds: each raises one sentence that says what to put right."""

import math
import operator
from collections.abc import Sequence
from fractions import Fraction
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from curvbound.errors import CurvboundError

__all__ = [
    "check_count",
    "check_delta",
    "check_errors",
    "check_nonnegative",
    "check_number",
    "check_positive",
    "check_risk",
    "check_weights",
    "nonnegative_array",
    "unit_array",
]

# Above this a whole number is no longer a float64, and n could be rounded up behind our back.
_LARGEST_COUNT = 2**53


def _numbers(value: ArrayLike, name: str) -> NDArray[np.float64]:
    try:
        if isinstance(value, str | bytes):  # numpy would read the number in it
            raise TypeError
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise CurvboundError(
            f"{name} must be a number or an array of numbers, but is of type "
            f"{type(value).__name__}; pass a float or a float64 array."
        ) from error
    if np.isnan(array).any():
        raise CurvboundError(f"{name} is NaN; find out where it was computed and pass a number.")
    return array


def unit_array(value: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return ``value`` as float64 array after checking that it lies in [0, 1]."""
    array = _numbers(value, name)
    bad = (array < 0.0) | (array > 1.0)
    if bad.any():
        raise CurvboundError(
            f"{name} must lie in [0, 1], but is {array[bad].flat[0]!s}; "
            "use the 0-1 error or a loss clipped and rescaled to [0, 1]."
        )
    return array


def nonnegative_array(value: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return ``value`` as float64 array after checking that it is not negative (inf is allowed)."""
    array = _numbers(value, name)
    bad = array < 0.0
    if bad.any():
        raise CurvboundError(
            f"{name} must not be negative, but is {array[bad].flat[0]!s}; "
            "compute it in float64 in a form without cancellation."
        )
    return array


def _single(array: NDArray[np.float64], name: str) -> float:
    if array.ndim != 0:
        raise CurvboundError(
            f"{name} must be one number, but is an array of shape {array.shape}; "
            "call the function once per value."
        )
    return float(array)


def check_number(value: float, name: str) -> float:
    """Return ``value`` as float after checking that it is one number, possibly infinite."""
    return _single(_numbers(value, name), name)


def check_risk(value: float, name: str = "risk") -> float:
    """Return ``value`` as float after checking that it lies in [0, 1]."""
    return _single(unit_array(value, name), name)


def check_nonnegative(value: float, name: str) -> float:
    """Return ``value`` as float after checking that it is not negative (inf is allowed)."""
    return _single(nonnegative_array(value, name), name)


def check_positive(value: float, name: str) -> float:
    """Return ``value`` as float after checking that it is positive and finite."""
    number = check_number(value, name)
    if not 0.0 < number < math.inf:
        raise CurvboundError(f"{name} must be positive and finite, but is {number!s}.")
    return number


def check_delta(value: float, name: str = "delta") -> float:
    """Return ``value`` as float after checking that it lies strictly between 0 and 1."""
    number = check_number(value, name)
    if not 0.0 < number < 1.0:
        raise CurvboundError(
            f"{name} must lie strictly between 0 and 1, but is {number!s}; "
            "0.05 states the bound with confidence 0.95."
        )
    return number


def check_count(value: SupportsIndex, name: str = "n", *, least: int = 1) -> int:
    """Return ``value`` as int after checking that it is a whole number of at least ``least``."""
    try:
        count = operator.index(value)
    except TypeError as error:
        raise CurvboundError(
            f"{name} must be a whole number, but is {value!s}; pass an int."
        ) from error
    if isinstance(value, bool) or not least <= count <= _LARGEST_COUNT:
        raise CurvboundError(
            f"{name} must be a whole number between {least} and 2^53, but is {value!s}."
        )
    return count


def check_errors(errors: SupportsIndex, trials: SupportsIndex) -> tuple[int, int]:
    """Return both as int after checking that there are not more errors than trials."""
    k, n = check_count(errors, "errors", least=0), check_count(trials, "the number of trials")
    if k > n:
        raise CurvboundError(f"{k} errors cannot happen in {n} trials; pass errors first.")
    return k, n


def check_weights(weights: Sequence[float] | None, size: int, name: str) -> list[float]:
    """Return the union-bound weights of a grid of ``size`` points; ``None`` means equal ones.

    Ten weights of 0.1 sum to slightly more than 1 in binary; such an excess, within the rounding of
    the weights themselves, is taken off again instead of being refused.
    """
    if size < 1:
        raise CurvboundError(f"{name} is empty; name at least one value, chosen before the data.")
    if weights is None:
        return [_share(Fraction(1, size))] * size
    values = [check_positive(weight, f"a weight of {name}") for weight in weights]
    if len(values) != size:
        raise CurvboundError(
            f"{name} has {size} values but {len(values)} weights; give one weight per value."
        )
    total = sum(map(Fraction, values), Fraction(0))
    if total <= 1:
        return values
    if total > 1 + Fraction(size, 2**53):
        raise CurvboundError(
            f"the weights of {name} sum to {float(total)!s}, but a union bound allows at most 1; "
            "divide them by their sum."
        )
    return [_share(Fraction(value) / total) for value in values]


def _share(exact: Fraction) -> float:
    """Return the largest float that is not above ``exact``."""
    value = float(exact)
    return value if Fraction(value) <= exact else math.nextafter(value, 0.0)
