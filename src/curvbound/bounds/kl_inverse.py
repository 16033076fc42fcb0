"""The kl divergence of two coin flips and its two inverses, rounded to the safe side.

How the inverses are found. Write a = q, b = 1 - q for the upper root (a and b exchanged for the
lower one) and let the root lie a distance d away. Then

    kl = a h(d/a) + b h(-d/b),    h(x) = x - log(1 + x) >= 0,

two non-negative terms, so nothing cancels. In the variable ``rate`` = -log(1 - d/b) this is convex
with slope d/(a + d), and Newton's method in float64 finds it in a few steps. A last Newton step
with the residual in double-double arithmetic gives d (or what is left of b, whichever is smaller)
to a relative error below 2^-75. The result is moved outward by a margin of 2^-70 and rounded
outward, once. Since kl(q, p) <= d^2/(p (1 - p)), a relative error of kl does not grow on its way
to d.
"""

from collections.abc import Callable
from typing import TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from curvbound.bounds._checks import nonnegative_array, unit_array
from curvbound.bounds._double_double import (
    Array,
    DoubleDouble,
    add,
    divide,
    multiply,
    two_sum,
    x_minus_log1p,
)
from curvbound.errors import CurvboundError

__all__ = ["binary_kl", "kl_inverse", "kl_inverse_lower"]

FloatOrArray: TypeAlias = float | Array
Flags: TypeAlias = NDArray[np.bool_]

_MARGIN = 2.0**-70
_SMALL = 2.0**-200  # below this only the ratio c/q matters: both can be scaled together
_FLOOR = 2.0**-400  # stands for q = 0 beside c >= 2^-200; moves the root by less than 2^-190
_NEGLIGIBLE = 2.0**-120  # c below this times q: the root is nearer to q than the next float
_CERTAIN_ONE = 38.0  # c above this times 1 - q: 1 - p < 2^-54
_VANISHING = 300.0  # c above this times q: the lower root is below q e^-300 and given as 0
_CHUNK = 8192  # points treated at once, so that the temporaries stay in the cache


@overload
def binary_kl(q: float, p: float) -> float: ...
@overload
def binary_kl(q: ArrayLike, p: ArrayLike) -> FloatOrArray: ...
def binary_kl(q: ArrayLike, p: ArrayLike) -> FloatOrArray:
    """Return kl(q || p) = q log(q/p) + (1-q) log((1-q)/(1-p)), accurate to a few ulp.

    Unlike the inverses it is rounded to nearest, not to a safe side. Arrays broadcast.

    >>> round(binary_kl(0.25, 0.5), 12), binary_kl(0.5, 1.0)
    (0.130812035941, inf)
    """
    q, p = _broadcast(unit_array(q, "q"), unit_array(p, "p"), "q and p")
    difference = p - q
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ones = np.where(q > 0.0, q * _h(difference / q, _log_ratio(p, q)), p)
        # Where even p/q overflows, q log(p/q) is nothing beside the difference.
        ones = np.where(~np.isfinite(ones) & (p > 0.0), difference, ones)
        zeros = np.where(
            q < 1.0, (1 - q) * _h(-difference / (1 - q), _log_ratio(1 - p, 1 - q)), 1 - p
        )
    return _plain(np.where(q == p, 0.0, ones + zeros))


@overload
def kl_inverse(q: float, c: float) -> float: ...
@overload
def kl_inverse(q: ArrayLike, c: ArrayLike) -> FloatOrArray: ...
def kl_inverse(q: ArrayLike, c: ArrayLike) -> FloatOrArray:
    """Return the largest p with kl(q || p) <= c, rounded up.

    The result is never below the true root and at most 4 ulp above it (2 in all our trials). It is
    q at c = 0, 1 - exp(-c) at q = 0, and exactly 1.0 at q = 1 and wherever no float lies between
    the root and 1. Arrays broadcast; two numbers give a float.

    Args:
        q: Empirical risk in [0, 1].
        c: Budget, at least 0; infinity is allowed.

    >>> kl_inverse(0.03, 0.1)
    0.1708495130391343
    >>> kl_inverse(1.0, 0.2), kl_inverse(0.3, 1e6), kl_inverse(0.3, 0.0)
    (1.0, 1.0, 0.3)
    """
    return _invert(q, c, _upper_roots)


@overload
def kl_inverse_lower(q: float, c: float) -> float: ...
@overload
def kl_inverse_lower(q: ArrayLike, c: ArrayLike) -> FloatOrArray: ...
def kl_inverse_lower(q: ArrayLike, c: ArrayLike) -> FloatOrArray:
    """Return the smallest p with kl(q || p) <= c, rounded down.

    The result is never above the true root and at most 4 ulp below it, except that roots below
    about q e^-300 are given as 0. It is q at c = 0 and exp(-c) at q = 1.

    >>> kl_inverse_lower(0.5, 0.01)
    0.4296414065425468
    >>> kl_inverse_lower(0.0, 0.2), kl_inverse_lower(0.3, 1e6)
    (0.0, 0.0)
    """
    return _invert(q, c, _lower_roots)


def _invert(q: ArrayLike, c: ArrayLike, roots: Callable[[Array, Array], Array]) -> FloatOrArray:
    q, c = _broadcast(unit_array(q, "q"), nonnegative_array(c, "c"), "q and c")
    flat_q, flat_c = q.ravel(), c.ravel()
    result = np.empty_like(flat_q)
    for start in range(0, flat_q.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        result[part] = roots(flat_q[part], flat_c[part])
    return _plain(result.reshape(q.shape))


def _plain(array: Array) -> FloatOrArray:
    return float(array) if array.ndim == 0 else array


def _broadcast(x: Array, y: Array, names: str) -> tuple[Array, Array]:
    try:
        first, second = np.broadcast_arrays(x, y)
    except ValueError as error:
        raise CurvboundError(
            f"the shapes of {names}, {x.shape} and {y.shape}, do not broadcast; "
            "pass numbers or arrays of matching shapes."
        ) from error
    return first, second


def _upper_roots(q: Array, c: Array) -> Array:
    result = np.where(c == 0.0, q, np.nextafter(q, 1.0))  # right where c is negligible beside q
    tiny = (q < _SMALL) & (c < _SMALL)
    result = np.where(tiny & (q == 0.0), c, result)  # 1 - e^-c lies just below c
    certain = (c > 0.0) & (c >= _CERTAIN_ONE * (1.0 - q))
    result = np.where(certain, 1.0, result)
    hard = (c > 0.0) & (c >= _NEGLIGIBLE * q) & ~certain & ~(tiny & (q == 0.0))
    if hard.any():
        a, budget, exponent = _scaled(q[hard], c[hard], tiny[hard])
        b = two_sum(np.ones_like(a), -a)
        by_distance, base, correction, margin = _solve(_single(np.maximum(a, _FLOOR)), b, budget)
        root = _sum_up(
            np.where(by_distance, a, 1.0),
            np.where(by_distance, base, -base),
            np.where(by_distance, correction, -correction) + margin,
        )
        result[hard] = _ldexp_up(np.minimum(root, 1.0), -exponent)
    return np.where(q == 0.0, np.minimum(result, c), result)


def _lower_roots(q: Array, c: Array) -> Array:
    result = np.where(c == 0.0, q, np.nextafter(q, 0.0))  # right where c is negligible beside q
    vanishing = c >= _VANISHING * q
    result = np.where(vanishing & (c > 0.0), 0.0, result)
    hard = (c > 0.0) & (c >= _NEGLIGIBLE * q) & ~vanishing
    if hard.any():
        tiny = (q < _SMALL) & (c < _SMALL)
        b, budget, exponent = _scaled(q[hard], c[hard], tiny[hard])
        a = two_sum(np.ones_like(b), -b)
        a = (np.maximum(a[0], _FLOOR), a[1])
        by_distance, base, correction, margin = _solve(a, _single(b), budget)
        negative = _sum_up(
            np.where(by_distance, -b, 0.0),
            np.where(by_distance, base, -base),
            np.where(by_distance, correction, -correction) + margin,
        )
        result[hard] = -_ldexp_up(np.minimum(negative, 0.0), -exponent)
    return result


def _scaled(q: Array, c: Array, tiny: Flags) -> tuple[Array, Array, NDArray[np.intc]]:
    """Bring pairs of tiny numbers up to about 2^-200, where no product underflows.

    So far down kl(q || p) is homogeneous: scaling q, p and c together changes nothing else.
    """
    _, exponent = np.frexp(np.maximum(q, c))
    shift = np.where(tiny, -200 - exponent, 0).astype(np.intc)
    return np.ldexp(q, shift), np.ldexp(c, shift), shift


def _single(x: Array) -> DoubleDouble:
    return x, np.zeros_like(x)


def _solve(a: DoubleDouble, b: DoubleDouble, c: Array) -> tuple[Flags, Array, Array, Array]:
    """Solve a h(d/a) + b h(-d/b) = c for d in (0, b), with a + b = 1 (or one of them tiny).

    Returns:
        Whether the next number stands for d (else for b - d), that number in float64, its
        correction, and a margin that exceeds the error of the two together.
    """
    rate = _approximate_rate(a[0], b[0], c)
    distance, rest = -b[0] * np.expm1(-rate), b[0] * np.exp(-rate)
    by_distance = distance <= rest
    base = np.where(by_distance, distance, rest)
    for _ in range(4):
        other = add(b, (-base, np.zeros_like(base)))
        d = np.where(by_distance, base, other[0]), np.where(by_distance, 0.0, other[1])
        rest_pair = np.where(by_distance, other[0], base), np.where(by_distance, other[1], 0.0)
        value = _divergence(a, b, d, rest_pair)
        residual = add(_single(c), (-value[0], -value[1]))[0]
        sensitivity = (a[0] + d[0]) * rest_pair[0] / d[0]  # d distance / d kl
        correction = np.where(by_distance, 1.0, -1.0) * residual * sensitivity
        if (np.abs(correction) <= 2.0**-40 * base).all():
            break
        base = base + correction
    return by_distance, base, correction, _MARGIN * c * sensitivity


def _divergence(
    a: DoubleDouble, b: DoubleDouble, d: DoubleDouble, rest: DoubleDouble
) -> DoubleDouble:
    """Return a h(d/a) + b h(-d/b), where rest = b - d; both terms are worked out side by side."""
    weight = _stack(a, b)
    x = divide(_stack(d, (-d[0], -d[1])), weight)
    terms = multiply(weight, x_minus_log1p(x, divide(_stack(add(a, d), rest), weight)))
    return add((terms[0][0], terms[1][0]), (terms[0][1], terms[1][1]))


def _stack(x: DoubleDouble, y: DoubleDouble) -> DoubleDouble:
    return np.stack((x[0], y[0])), np.stack((x[1], y[1]))


def _approximate_rate(a: Array, b: Array, c: Array) -> Array:
    """Return -log(1 - d/b) at the root of :func:`_solve` to about float64 accuracy.

    The start is the smallest of three upper bounds, each sharp in its own corner; from above
    Newton's method descends on a convex function without ever leaving its domain.
    """
    ratio = c / b
    distance = np.minimum((c + np.sqrt(c * (c + 2.0 * a))) / b, 1.0 - 2.0**-53)
    rate = np.minimum(-np.log1p(-distance), 0.5 * (ratio + np.sqrt(ratio * (ratio + 8.0))))
    surprise = -a * np.where(b < 0.5, np.log1p(-np.minimum(b, 0.5)), np.log(a))  # -a log a
    rate = np.minimum(rate, (c + surprise) / b)
    for _ in range(50):
        y = -np.expm1(-rate)
        d = b * y
        x = d / a
        terms = _h(np.stack((x, -y)), np.stack((np.log1p(x), -rate)))
        value = a * terms[0] + b * terms[1]
        step = (value - c) * (a + d) / d
        rate = rate - step
        if (np.abs(step) <= 1e-9 * rate).all():  # the error left is of the order of its square
            break
    return rate


def _h(x: Array, log1p_x: Array) -> Array:
    """Return x - log(1 + x) in float64; see :func:`x_minus_log1p` for the formula near 0."""
    near = (x > -0.3) & (x < 0.42)
    t = np.where(near, x, 0.0)
    z = t / (2.0 + t)
    square = z * z
    series = np.zeros_like(z)
    for denominator in range(25, 1, -2):
        series = series * square + 1.0 / denominator
    return np.where(near, t * z - 2.0 * z * square * series, x - log1p_x)


def _log_ratio(x: Array, y: Array) -> Array:
    """Return log(x/y), also where the quotient leaves the range of normal floats."""
    ratio = x / y
    normal = (ratio > np.finfo(np.float64).tiny) & np.isfinite(ratio)
    return np.where(normal, np.log(ratio), np.log(x) - np.log(y))


def _sum_up(x: Array, y: Array, z: Array) -> Array:
    """Return the smallest float that is certainly at or above x + y + z."""
    high, low = two_sum(x, y)
    high, low = two_sum(high, np.nextafter(low + z, np.inf))
    return np.where(low > 0.0, np.nextafter(high, np.inf), high)


def _ldexp_up(x: Array, exponent: NDArray[np.intc]) -> Array:
    """Return x 2^exponent, rounded up where the result is subnormal."""
    result = np.ldexp(x, exponent)
    return np.where(np.ldexp(result, -exponent) < x, np.nextafter(result, np.inf), result)
