"""Upward arithmetic against exact and high-precision arithmetic."""

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

from curvbound.bounds._rounding import add_up, divide_up, log_up, multiply_up, sqrt_up, sum_up, up

positive = st.floats(1e-300, 1e300)
moderate = st.floats(1e-100, 1e100)


@given(moderate, moderate)
def test_elementary_operations_are_never_below(x, y):
    assert Fraction(add_up(x, y)) >= Fraction(x) + Fraction(y)
    assert Fraction(multiply_up(x, y)) >= Fraction(x) * Fraction(y)
    assert Fraction(divide_up(x, y)) >= Fraction(x) / Fraction(y)
    assert Fraction(sqrt_up(x)) ** 2 >= Fraction(x)


@given(positive)
def test_logarithm_is_never_below_and_at_most_three_floats_above(x):
    with mp.workdps(60):
        exact = mp.log(mpf(x))
    assert exact <= log_up(x) <= exact + 4 * math.ulp(log_up(x))


@given(st.lists(moderate, max_size=30))
def test_sum_is_never_below_and_has_no_order(values):
    total = sum_up(values)
    assert Fraction(total) >= sum(map(Fraction, values), Fraction(0))
    assert total == sum_up(values[::-1])


def test_trivial_cases_stay_exact():
    assert add_up(0.0, 0.1) == add_up(0.1, 0.0) == 0.1
    assert multiply_up(1.0, 0.1) == divide_up(0.1, 1.0) == sum_up([0.1, 0.0]) == 0.1
    assert divide_up(0.0, 3.0) == sqrt_up(0.0) == log_up(1.0) == sum_up([]) == 0.0
    assert up(math.inf) == math.inf
    assert up(1.0, 2) == 1.0 + 2 * math.ulp(1.0)
