"""Monte Carlo limits: the numbers of 000-E8, formulas, rounding, bad input."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

from curvbound.bounds import (
    empirical_bernstein_limit,
    error_rate,
    kl_chernoff_limit,
    kl_inverse,
    log_grid_charge,
    monte_carlo_limit,
    pac_bayes_kl,
)
from curvbound.errors import CurvboundError


@given(st.integers(0, 10**9), st.integers(1, 10**9))
def test_error_rate_is_rounded_up(errors, trials):
    if errors > trials:
        with pytest.raises(CurvboundError, match="cannot happen"):
            error_rate(errors, trials)
        return
    rate = error_rate(errors, trials)
    exact = Fraction(errors, trials)
    assert exact <= Fraction(rate)
    assert Fraction(math.nextafter(rate, -1.0)) < exact


def test_five_draws_certify_nothing():
    assert kl_chernoff_limit(0.03, 5, 0.01) == pytest.approx(0.659, abs=5e-4)
    assert kl_chernoff_limit(0.03, 5, 0.01, two_sided=True) == pytest.approx(0.705, abs=5e-4)


def test_how_many_draws_a_small_slack_needs():
    for draws, slack in ((3750, 0.01), (315000, 0.001)):
        at = kl_chernoff_limit(0.03, draws, 0.01, two_sided=True) - 0.03
        before = kl_chernoff_limit(0.03, int(0.98 * draws), 0.01, two_sided=True) - 0.03
        assert at < slack < before


def test_the_correction_that_001_left_out():
    raised = kl_chernoff_limit(0.03373, 50000, 0.01, two_sided=True)
    bound = pac_bayes_kl(raised, 4612.6, 60000, 0.025, constant="001", charge=log_grid_charge(36))
    assert bound == pytest.approx(0.1588, abs=5e-5)


@given(st.floats(0.0, 1.0), st.integers(1, 10**7), st.floats(1e-9, 0.9), st.integers(1, 1000))
def test_chernoff_formula(mean, draws, delta, candidates):
    found = kl_chernoff_limit(mean, draws, delta, candidates=candidates)
    budget = math.log(candidates / delta) / draws
    assert found >= kl_inverse(mean, budget * (1 - 1e-15))
    assert found <= kl_inverse(mean, budget * (1 + 1e-14))


@given(
    st.lists(st.floats(0.0, 1.0), min_size=2, max_size=40),
    st.floats(1e-9, 0.9),
    st.integers(1, 50),
)
def test_empirical_bernstein_formula_rounded_up(values, delta, candidates):
    n = len(values)
    with mp.workdps(60):
        exact = [mpf(value) for value in values]
        mean = mp.fsum(exact) / n
        variance = mp.fsum((value - mean) ** 2 for value in exact) / (n - 1)
        nats = mp.log(2 * candidates / mpf(delta))
        limit = mean + mp.sqrt(2 * variance * nats / n) + 7 * nats / (3 * (n - 1))
    found = empirical_bernstein_limit(values, delta, candidates=candidates)
    assert found >= min(1, limit)
    assert found <= min(1, limit * (1 + mpf(10) ** -14))


def test_shared_draws_that_vary_little_favour_empirical_bernstein():
    # the linear MNIST-2 network: mean .1411, standard deviation between draws .0013
    draws = 0.1411 + 0.0013 * np.tile([-1.0, 1.0], 1000)
    for n, better in ((20, kl_chernoff_limit), (200, empirical_bernstein_limit)):
        limits = {
            kl_chernoff_limit: kl_chernoff_limit(0.1411, n, 0.01),
            empirical_bernstein_limit: empirical_bernstein_limit(draws[:n], 0.01),
        }
        assert min(limits, key=limits.get) is better
    assert empirical_bernstein_limit(draws[:200], 0.01) == pytest.approx(0.204, abs=5e-4)
    assert empirical_bernstein_limit(draws, 0.01) == pytest.approx(0.1475, abs=5e-4)


def test_the_smaller_limit_is_paid_for_by_halves():
    rng = np.random.default_rng(4)
    for values in (rng.random(30), 0.1 + 0.001 * rng.random(3000)):
        mean = math.fsum(values) / len(values)
        halves = (
            kl_chernoff_limit(mean, len(values), 0.005),
            empirical_bernstein_limit(values, 0.005),
        )
        assert monte_carlo_limit(values, 0.01) == pytest.approx(min(halves), rel=1e-14)
        assert monte_carlo_limit(values, 0.01, candidates=7) > monte_carlo_limit(values, 0.01)


def test_limits_do_not_depend_on_the_order_of_draws():
    values = np.random.default_rng(5).random(1000)
    for limit in (empirical_bernstein_limit, monte_carlo_limit):
        assert limit(values, 0.05) == limit(values[::-1], 0.05) == limit(np.sort(values), 0.05)


def test_ends():
    assert kl_chernoff_limit(1.0, 10**6, 0.05) == 1.0
    assert empirical_bernstein_limit(np.ones(50), 0.05) == 1.0
    assert kl_chernoff_limit(0.0, 100, 0.05) == pytest.approx(1.0 - 0.05**0.01, rel=1e-14)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kl_chernoff_limit(1.2, 10, 0.05), "mean must lie in"),
        (lambda: kl_chernoff_limit(0.2, 0, 0.05), "draws must be a whole number"),
        (lambda: kl_chernoff_limit(0.2, 10, 0.0), "delta must lie strictly"),
        (lambda: kl_chernoff_limit(0.2, 10, 0.05, candidates=0), "candidates must be a whole"),
        (lambda: empirical_bernstein_limit([0.5], 0.05), "at least two draws"),
        (lambda: empirical_bernstein_limit([], 0.05), "at least two draws"),
        (lambda: empirical_bernstein_limit([[0.5, 0.5]], 0.05), "at least two draws"),
        (lambda: empirical_bernstein_limit([0.5, math.nan], 0.05), "values is NaN"),
        (lambda: monte_carlo_limit([0.5, 1.5], 0.05), "values must lie in"),
        (lambda: monte_carlo_limit([0.5, 0.5], 1.0), "delta must lie strictly"),
        (lambda: error_rate(-1, 10), "errors must be a whole number"),
        (lambda: error_rate(1, 0), "number of trials must be"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(CurvboundError, match=message):
        call()
