"""The kl inverses against 120-digit arithmetic: never on the wrong side, at most 4 ulp away."""

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curvbound.bounds import binary_kl, kl_inverse, kl_inverse_lower, pinsker
from curvbound.errors import CurvboundError
from oracles.kl_reference import (
    awkward_points,
    exact_kl,
    random_points,
    steps_above_upper_root,
    steps_below_lower_root,
    worst_steps,
)

unit = st.floats(0.0, 1.0)
budget = st.floats(0.0, 1e3)

# (q, c, root) to 17 significant digits
KNOWN = [
    (0.0, 0.1, "0.095162581964040427"),
    (0.03, 0.1, "0.17084951303913426"),
    (0.5, 0.01, "0.57035859345745319"),
    (0.001, 1e-6, "0.0010453667649919768"),
    (0.25, 2.0, "0.96679956047921462"),
    (0.9, 0.05, "0.96872160372772063"),
]


@pytest.mark.parametrize(("q", "c", "root"), KNOWN)
def test_known_roots_are_the_first_float_above(q, c, root):
    p = kl_inverse(q, c)
    assert isinstance(p, float)
    assert 0 <= Decimal(p) - Decimal(root) <= Decimal(math.ulp(p))
    assert steps_above_upper_root(q, c, p) == 1


def test_upper_inverse_at_random_points():
    q, c = random_points(5000, seed=20)
    least, most = worst_steps(steps_above_upper_root, q, c, kl_inverse(q, c))
    assert least >= 0
    assert most <= 4


def test_upper_inverse_at_awkward_points():
    q, c = awkward_points()
    least, most = worst_steps(steps_above_upper_root, q, c, kl_inverse(q, c))
    assert least >= 0
    assert most <= 4


@pytest.mark.parametrize("points", [random_points(2500, seed=21), awkward_points()])
def test_lower_inverse_at_random_and_awkward_points(points):
    q, c = points
    p = kl_inverse_lower(q, c)
    certain = p == 0.0  # given up on purpose below q e^-300: safe, and checked for size
    least, most = worst_steps(steps_below_lower_root, q[~certain], c[~certain], p[~certain])
    assert least >= 0
    assert most <= 4
    given_up = certain & (q > 0.0)
    # the root is below q e^-300 if there is less divergence than c still at that place
    assert all(
        exact_kl(a, max(a * math.exp(-300.0), 5e-324)) <= b * (1 + 1e-12) or a < 1e-190
        for a, b in zip(q[given_up], c[given_up], strict=True)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("inverse", "count"),
    [(kl_inverse, steps_above_upper_root), (kl_inverse_lower, steps_below_lower_root)],
)
def test_inverse_at_a_hundred_thousand_random_points(inverse, count):
    q, c = random_points(100_000, seed=22)
    p = inverse(q, c)
    found = p > 0.0
    least, most = worst_steps(count, q[found], c[found], p[found])
    assert least >= 0
    assert most <= 4


def test_ends_are_exact():
    assert kl_inverse(1.0, 0.0) == kl_inverse(1.0, 0.3) == kl_inverse(1.0, math.inf) == 1.0
    assert kl_inverse(0.0, math.inf) == kl_inverse(0.3, 1e6) == kl_inverse(0.0, 800.0) == 1.0
    assert kl_inverse(0.3, 0.0) == 0.3
    assert kl_inverse(0.0, 0.0) == 0.0
    assert kl_inverse_lower(0.0, 0.4) == kl_inverse_lower(0.3, math.inf) == 0.0
    assert kl_inverse_lower(0.3, 0.0) == 0.3
    assert kl_inverse_lower(1.0, 0.0) == 1.0


def test_without_errors_the_upper_root_is_one_minus_exp():
    c = np.geomspace(1e-300, 36.0, 2000)
    p = kl_inverse(np.zeros_like(c), c)
    np.testing.assert_allclose(p, -np.expm1(-c), rtol=4e-16)
    assert (p <= c).all()


def test_without_successes_the_lower_root_is_exp():
    c = np.geomspace(1e-15, 290.0, 500)
    np.testing.assert_allclose(kl_inverse_lower(np.ones_like(c), c), np.exp(-c), rtol=1e-13)


@given(unit, unit, budget)
def test_upper_inverse_increases_with_q(q, other, c):
    low, high = sorted((q, other))
    assert kl_inverse(low, c) <= math.nextafter(kl_inverse(high, c), 2.0)


@given(unit, budget, budget)
def test_inverses_widen_with_c(q, c, other):
    low, high = sorted((c, other))
    assert kl_inverse(q, low) <= math.nextafter(kl_inverse(q, high), 2.0)
    assert kl_inverse_lower(q, low) >= math.nextafter(kl_inverse_lower(q, high), -1.0)


@given(unit, budget)
def test_inverses_lie_around_q_and_below_pinsker(q, c):
    assert kl_inverse_lower(q, c) <= q <= kl_inverse(q, c) <= 1.0
    assert kl_inverse(q, c) <= math.nextafter(pinsker(q, c), 2.0)


@given(st.floats(1e-6, 0.99), st.floats(1e-9, 3.0))
def test_divergence_at_the_roots_is_the_budget(q, c):
    upper, lower = kl_inverse(q, c), kl_inverse_lower(q, c)
    # one ulp of p moves kl by its slope times that ulp
    if upper < 1.0:
        slope = (upper - q) / (upper * (1.0 - upper))
        assert binary_kl(q, upper) == pytest.approx(c, rel=1e-13, abs=4 * slope * math.ulp(upper))
    if lower > 0.0:
        slope = (q - lower) / (lower * (1.0 - lower))
        assert binary_kl(q, lower) == pytest.approx(c, rel=1e-13, abs=4 * slope * math.ulp(lower))


def test_arrays_broadcast_and_agree_with_single_numbers():
    q, c = np.array([[0.0], [0.1], [1.0]]), np.array([0.0, 1e-5, 0.3, 1e3])
    for inverse in (kl_inverse, kl_inverse_lower):
        table = inverse(q, c)
        assert table.shape == (3, 4)
        assert table.tolist() == [[inverse(a, b) for b in c.tolist()] for a in q.ravel().tolist()]
    assert kl_inverse(np.zeros((0,)), 0.1).shape == (0,)


def test_batching_does_not_change_the_result():
    q, c = random_points(20_000, seed=23)
    assert np.array_equal(kl_inverse(q, c)[9000:9050], kl_inverse(q[9000:9050], c[9000:9050]))


def test_binary_kl_against_the_reference():
    q, c = random_points(1500, seed=24)
    p, _ = random_points(1500, seed=25)
    near = q + (1 - q) * np.minimum(c, 1e-3)
    for other in (p, near):
        found = binary_kl(q, other)
        for a, b, value in zip(q, other, found, strict=True):
            exact = exact_kl(float(a), float(b))
            # below the normal range absolute accuracy is all that is left
            assert abs(value - exact) <= 2e-14 * exact + 1e-307 or value == exact


def test_binary_kl_at_the_ends():
    assert binary_kl(0.0, 0.0) == binary_kl(1.0, 1.0) == binary_kl(0.3, 0.3) == 0.0
    assert binary_kl(0.5, 0.0) == binary_kl(0.5, 1.0) == math.inf
    assert binary_kl(0.0, 1.0) == binary_kl(1.0, 0.0) == math.inf
    assert binary_kl(0.0, 0.5) == pytest.approx(math.log(2.0), rel=1e-15)


@pytest.mark.parametrize("inverse", [kl_inverse, kl_inverse_lower])
@pytest.mark.parametrize(
    ("q", "c", "message"),
    [
        (-1e-9, 0.1, "q must lie in"),
        (1.0000001, 0.1, "q must lie in"),
        (math.nan, 0.1, "q is NaN"),
        (0.1, -1e-300, "c must not be negative"),
        (0.1, math.nan, "c is NaN"),
        ("0.1", 0.1, "q must be a number"),
        (None, 0.1, "q is NaN"),
        (np.zeros(2), np.zeros(3), "do not broadcast"),
    ],
)
def test_bad_input_is_named(inverse, q, c, message):
    with pytest.raises(CurvboundError, match=message):
        inverse(q, c)
