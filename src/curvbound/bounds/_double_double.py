"""Vectorised double-double arithmetic: a number is an unevaluated sum of two float64 arrays.

Only what the kl inverse needs. Each operation has a relative error below 2^-100 as long as nothing
overflows or comes near the subnormal range; the callers scale their arguments so that it does not.
The building blocks are the exact sum of Knuth and the exact product of Dekker.
"""

from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "DoubleDouble", "add", "divide", "multiply", "two_sum", "x_minus_log1p"]

Array: TypeAlias = NDArray[np.float64]
DoubleDouble: TypeAlias = tuple[Array, Array]

_SPLITTER = 134217729.0  # 2^27 + 1 cuts a 53-bit significand into two halves
_ZERO = np.array(0.0)
_ONE = np.array(1.0)
_LN2 = (np.array(0.6931471805599453), np.array(2.3190468138462996e-17))
_SQRT_HALF = 0.7071067811865476

# Coefficients 1/3, 1/5, 1/7, ... of (atanh(z)/z - 1)/z^2. With z^2 <= 0.0295 the first seven are
# needed in double-double; plain float64 is enough for the rest, which stop contributing at 2^-85.
_LEADING = 7
_TERMS = 17


def _split_fraction(value: Fraction) -> DoubleDouble:
    head = float(value)
    return np.array(head), np.array(float(value - Fraction(head)))


_COEFFICIENTS = [_split_fraction(Fraction(1, 2 * j + 3)) for j in range(_TERMS)]


def two_sum(x: Array, y: Array) -> DoubleDouble:
    """Return x + y exactly, as rounded sum and rounding error."""
    total = x + y
    y_part = total - x
    return total, (x - (total - y_part)) + (y - y_part)


def _fast_two_sum(x: Array, y: Array) -> DoubleDouble:
    """Return x + y exactly, knowing that |x| >= |y| or x = 0."""
    total = x + y
    return total, y - (total - x)


def _two_product(x: Array, y: Array) -> DoubleDouble:
    """Return x * y exactly, as rounded product and rounding error."""
    product = x * y
    t = _SPLITTER * x
    x_high = t - (t - x)
    x_low = x - x_high
    t = _SPLITTER * y
    y_high = t - (t - y)
    y_low = y - y_high
    error = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    return product, error


def add(x: DoubleDouble, y: DoubleDouble) -> DoubleDouble:
    """Return x + y, accurate also when the signs differ."""
    high, error = two_sum(x[0], y[0])
    low, low_error = two_sum(x[1], y[1])
    high, error = _fast_two_sum(high, error + low)
    return _fast_two_sum(high, error + low_error)


def multiply(x: DoubleDouble, y: DoubleDouble) -> DoubleDouble:
    """Return x * y."""
    product, error = _two_product(x[0], y[0])
    return _fast_two_sum(product, error + (x[0] * y[1] + x[1] * y[0]))


def divide(x: DoubleDouble, y: DoubleDouble) -> DoubleDouble:
    """Return x / y."""
    quotient = x[0] / y[0]
    product, error = _two_product(quotient, y[0])
    remainder = (((x[0] - product) - error) + x[1]) - quotient * y[1]
    return _fast_two_sum(quotient, remainder / y[0])


def _negate(x: DoubleDouble) -> DoubleDouble:
    return -x[0], -x[1]


def _atanh_remainder(z: DoubleDouble) -> DoubleDouble:
    """Return 2 (atanh(z) - z) for z^2 <= 0.0295."""
    square = multiply(z, z)
    tail = np.zeros_like(square[0])
    for coefficient, _ in reversed(_COEFFICIENTS[_LEADING:]):
        tail = tail * square[0] + coefficient
    series: DoubleDouble = (tail, np.zeros_like(tail))
    for constant in reversed(_COEFFICIENTS[:_LEADING]):
        series = add(multiply(series, square), constant)
    cube = multiply(square, z)
    return multiply((2.0 * cube[0], 2.0 * cube[1]), series)


def x_minus_log1p(x: DoubleDouble, one_plus_x: DoubleDouble) -> DoubleDouble:
    """Return x - log(1 + x) >= 0 without cancellation.

    With 1 + x = 2^k m, m in [sqrt(1/2), sqrt(2)), and z = (m - 1)/(m + 1), the logarithm is
    k log 2 + 2 atanh(z). For k = 0 the leading parts cancel in closed form, because
    x - 2z = x z, which leaves x z - 2 (atanh(z) - z); both terms are small and well separated.

    Args:
        x: The argument, greater than -1.
        one_plus_x: The same number plus one, passed in because the caller has it accurately even
            when x is close to -1 or so large that adding one would lose it.
    """
    significand, exponent = np.frexp(one_plus_x[0])
    exponent = np.where(significand < _SQRT_HALF, exponent - 1, exponent)
    near = exponent == 0
    scaled = (np.ldexp(one_plus_x[0], -exponent), np.ldexp(one_plus_x[1], -exponent))
    shifted = add(scaled, (-_ONE, _ZERO))
    offset = (np.where(near, x[0], shifted[0]), np.where(near, x[1], shifted[1]))
    z = divide(offset, add((2.0 * _ONE, _ZERO), offset))
    remainder = _atanh_remainder(z)

    close = add(multiply(offset, z), _negate(remainder))
    log2_part = multiply((exponent.astype(np.float64), _ZERO), _LN2)
    logarithm = add(log2_part, add((2.0 * z[0], 2.0 * z[1]), remainder))
    far = add(x, _negate(logarithm))
    return np.where(near, close[0], far[0]), np.where(near, close[1], far[1])
