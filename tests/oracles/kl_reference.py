"""The binary kl divergence in 120-digit arithmetic, and how far a float is from its true root."""

import math
from collections.abc import Callable

import numpy as np
from mpmath import mp, mpf

DIGITS = 120


def exact_kl(q: float, p: float) -> mpf:
    """Return kl(q || p) with a relative error below 1e-50 for any floats q and p in [0, 1].

    The two terms are written as w (x - log(1 + x)) with w = q and 1 - q. At neighbouring floats
    x is about 1e-16, so that at most 40 of the 120 digits cancel.
    """
    with mp.workdps(DIGITS):
        q, p = mpf(q), mpf(p)
        if q == p:
            return mpf(0)
        if p == 0 or p == 1:
            return mp.inf
        return _weighted(q, p - q, p) + _weighted(1 - q, q - p, 1 - p)


def _weighted(w: mpf, d: mpf, moved: mpf) -> mpf:
    """Return w (x - log(1 + x)) for x = d/w and 1 + x = moved/w."""
    if w == 0:
        return d
    x = d / w
    return d - w * (mp.log1p(x) if abs(x) < 0.5 else mp.log(moved / w))


def steps_above_upper_root(q: float, c: float, p: float, most: int = 8) -> int:
    """Count floats from the true upper root to p: 0 on it, 1 is the first float above, -1 below."""
    return _steps(q, c, p, 1.0, 0.0, most)


def steps_below_lower_root(q: float, c: float, p: float, most: int = 8) -> int:
    """Count floats from p to the true lower root: 0 on it, 1 is the first below, -1 above."""
    return _steps(q, c, p, 0.0, 1.0, most)


def _steps(q: float, c: float, p: float, end: float, towards_q: float, most: int) -> int:
    if p != end and exact_kl(q, p) < c:
        return -1
    for steps in range(most):
        if p == q or (p != end and exact_kl(q, p) == c):
            return steps
        p = math.nextafter(p, towards_q)
        if exact_kl(q, p) < c:
            return steps + 1
    return most + 1


def worst_steps(
    count: Callable[[float, float, float], int], q: np.ndarray, c: np.ndarray, p: np.ndarray
) -> tuple[int, int]:
    """Return the smallest and the largest number of steps over all points."""
    steps = [count(*map(float, point)) for point in zip(q, c, p, strict=True)]
    return min(steps), max(steps)


def random_points(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (q, c) over the whole range of float64, with the difficult corners well covered.

    q is uniform, log-uniform down to the smallest subnormal, or just below 1; c is log-uniform
    from 1e-320 to 1e3, or tied to q or to 1 - q so that the root is neither trivial nor 1.
    """
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 4, count)
    exponent = rng.uniform(-323.3, 0.0, count)
    q = np.choose(
        kind,
        [
            rng.random(count),
            10.0**exponent,
            10.0**exponent,
            1.0 - 10.0 ** rng.uniform(-16, 0, count),
        ],
    )
    c = np.choose(
        rng.integers(0, 3, count),
        [
            10.0 ** rng.uniform(-320.0, 3.0, count),
            q * 10.0 ** rng.uniform(-38.0, 5.0, count),
            (1.0 - q) * 10.0 ** rng.uniform(-34.0, 2.0, count),
        ],
    )
    return q, c


def awkward_points() -> tuple[np.ndarray, np.ndarray]:
    """Return (q, c) around every threshold and at the ends of float64."""
    tiny = np.finfo(np.float64).smallest_subnormal
    some_q = [
        0.0,
        tiny,
        3 * tiny,
        2.2e-308,
        2.0**-400,
        2.0**-201,
        2.0**-200,
        2.0**-199,
        1e-40,
        1e-17,
    ]
    some_q += [1e-9, 1e-3, 0.25, 0.5, 0.75, 1 - 1e-9, 1 - 2.0**-52, 1 - 2.0**-53, 1.0]
    some_c = [tiny, 1e-320, 2.2e-308, 2.0**-400, 2.0**-201, 2.0**-200, 2.0**-199, 1e-100, 1e-40]
    some_c += [
        1e-20,
        1e-16,
        1e-10,
        1e-3,
        0.1,
        1.0,
        10.0,
        36.0,
        37.0,
        38.0,
        300.0,
        746.0,
        1e3,
        1e300,
    ]
    pairs = [(q, c) for q in some_q for c in some_c]
    pairs += [(q, q * 2.0**-120 * f) for q in some_q if q for f in (0.5, 1.0, 2.0)]
    pairs += [(q, (1 - q) * f) for q in some_q for f in (34.0, 36.0, 36.7, 37.0, 37.9, 38.0, 38.1)]
    pairs += [(q, q * f) for q in some_q for f in (1.0, 299.0, 300.0, 301.0)]
    q, c = np.array([pair for pair in pairs if pair[1] > 0.0]).T
    return q, c
