"""Double-double arithmetic against 80-digit arithmetic."""

import numpy as np
import pytest
from mpmath import mp, mpf

from curvbound.bounds._double_double import add, divide, multiply, two_sum, x_minus_log1p

ACCURACY = mpf(2) ** -98


def random_pairs(seed: int, count: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    high = rng.choice([-1.0, 1.0], count) * 10.0 ** rng.uniform(-60, 60, count)
    return two_sum(high, high * rng.uniform(-0.5, 0.5, count) * 2.0**-53)


def exact(pair: tuple[np.ndarray, np.ndarray]) -> list[mpf]:
    return [mpf(float(high)) + mpf(float(low)) for high, low in zip(*pair, strict=True)]


@pytest.mark.parametrize(
    ("operation", "reference"),
    [
        (add, lambda x, y: x + y),
        (multiply, lambda x, y: x * y),
        (divide, lambda x, y: x / y),
    ],
)
def test_operations(operation, reference):
    x, y = random_pairs(1), random_pairs(2)
    with mp.workdps(80):
        for a, b, found in zip(exact(x), exact(y), exact(operation(x, y)), strict=True):
            assert abs(found - reference(a, b)) <= ACCURACY * abs(reference(a, b))


def test_sum_of_numbers_that_nearly_cancel():
    x = random_pairs(3)
    y = (-x[0] * (1 + 2.0**-50), x[1] * 3.0)
    y = two_sum(*y)
    with mp.workdps(80):
        for a, b, found in zip(exact(x), exact(y), exact(add(x, y)), strict=True):
            assert abs(found - (a + b)) <= ACCURACY * abs(a + b)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_x_minus_log1p(sign):
    rng = np.random.default_rng(4)
    x = sign * 10.0 ** rng.uniform(-30, 0 if sign < 0 else 100, 600)
    x = np.concatenate([x, sign * np.array([0.25, 0.2928932188134524, 0.41421356, 0.5, 0.4142135])])
    x = x[x > -1.0]
    zero = np.zeros_like(x)
    one_plus_x = two_sum(np.ones_like(x), x)
    with mp.workdps(150):
        found = exact(x_minus_log1p((x, zero), one_plus_x))
        for value, result in zip(x, found, strict=True):
            reference = mpf(value) - mp.log1p(mpf(value))
            assert abs(result - reference) <= mpf(2) ** -80 * reference
