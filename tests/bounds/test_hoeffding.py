"""The linear bound of 003 and its grid."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

from curvbound.bounds import mcallester, pac_bayes_hoeffding, pac_bayes_hoeffding_grid
from curvbound.errors import CurvboundError

N, DELTA = 10**9, 0.05
LOG = math.log(1.0 / DELTA)


@given(
    st.floats(0.0, 1.0),
    st.floats(0.0, 1e5),
    st.integers(1, 10**7),
    st.floats(1e-9, 0.99),
    st.floats(1e-3, 1e8),
    st.sampled_from([2, 8]),
)
def test_formula_rounded_up(risk, kl, n, delta, eta, divisor):
    with mp.workdps(50):
        nats = mpf(kl) - mp.log(mpf(delta))
        exact = mpf(risk) + nats / mpf(eta) + mpf(eta) / (divisor * n)
    found = pac_bayes_hoeffding(risk, kl, n, delta, eta=eta, divisor=divisor)
    assert found >= min(1, exact)
    assert found <= min(1, exact * (1 + mpf(2) ** -49))


def test_divisor_eight_is_what_the_moments_of_a_binomial_allow():
    # E exp(eta (p - mean)) <= exp(eta^2/(8n)), the step that 003 takes with 2 instead of 8
    for n in (1, 7, 40):
        k = np.arange(n + 1)
        for p in (0.01, 0.3, 0.5, 0.9):
            chances = np.array([math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in k])
            for eta in (0.1, 1.0, 10.0, 60.0):
                assert chances @ np.exp(eta * (p - k / n)) <= math.exp(eta**2 / (8 * n)) * (
                    1 + 1e-12
                )


def test_divisor_eight_halves_the_optimised_gap():
    for kl in (0.0, 5.0, 25.0, 400.0):
        loose = pac_bayes_hoeffding_grid(0.0, kl, N, DELTA, divisor=2)
        assert loose == pytest.approx(2.0 * pac_bayes_hoeffding_grid(0.0, kl, N, DELTA), rel=1e-12)


def rule_of_the_paper(kl: float) -> list[int]:
    """Return all j that satisfy the implicit rule of 003 Appendix B."""
    return [
        j
        for j in range(40)
        if j == math.floor(0.5 * math.log(kl / (LOG + (j + 1) * math.log(2.0)) + 1.0))
    ]


def test_grid_has_a_value_where_the_rule_of_the_paper_has_none():
    assert rule_of_the_paper(23.5)
    assert rule_of_the_paper(28.0)
    for kl in (23.7, 25.0, 27.9):
        assert rule_of_the_paper(kl) == []
        best = 2.0 * math.sqrt((kl + LOG) / (2 * N))
        assert best < pac_bayes_hoeffding_grid(0.0, kl, N, DELTA, divisor=2) < 1.2 * best


def test_gap_against_the_claim_of_the_paper_and_the_continuous_optimum():
    kls = np.geomspace(0.1, 1e6, 200)
    gaps = np.array([pac_bayes_hoeffding_grid(0.0, kl, N, DELTA, divisor=2) for kl in kls])
    optimum = 2.0 * np.sqrt((kls + LOG) / (2 * N))
    extra = math.log(2.0) / 2.0 * (2.0 + np.log(kls / LOG + 1.0))
    claimed = (1.0 + math.exp(-1.0)) * np.sqrt((kls + LOG + extra) / (2 * N))
    assert (gaps / optimum).min() >= 1.0
    assert (gaps / optimum).max() < 1.2
    assert (gaps / claimed).min() > 1.45
    assert (gaps / claimed).max() < 1.68


@pytest.mark.parametrize("divisor", [2, 8])
def test_grid_is_the_minimum_over_all_j(divisor):
    risk, kl, n, delta = 0.05, 300.0, 20000, 0.01
    values = []
    for j in range(30):
        share = delta * 2.0 ** -(j + 1)
        eta = math.exp(j) * math.sqrt(divisor * n * math.log(1.0 / share))
        values.append(pac_bayes_hoeffding(risk, kl, n, share, eta=eta, divisor=divisor))
    found = pac_bayes_hoeffding_grid(risk, kl, n, delta, divisor=divisor)
    assert found == pytest.approx(min(values), rel=1e-13)


def test_grid_is_near_mcallester_and_at_most_one():
    assert pac_bayes_hoeffding_grid(0.1, 500.0, 60000, 0.05) == pytest.approx(
        mcallester(0.1, 500.0, 60000, 0.05), rel=0.1
    )
    assert pac_bayes_hoeffding_grid(0.1, math.inf, 60000, 0.05) == 1.0
    assert pac_bayes_hoeffding_grid(1.0, 0.0, 60000, 0.05) == 1.0
    assert pac_bayes_hoeffding_grid(0.0, 0.0, 1, 1e-300) == 1.0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"eta": 0.0}, "eta must be positive"),
        ({"eta": -3.0}, "eta must be positive"),
        ({"eta": math.inf}, "eta must be positive"),
        ({"eta": math.nan}, "eta is NaN"),
        ({"divisor": 4}, "divisor must be 2"),
        ({"risk": 2.0}, "risk must lie in"),
        ({"kl": -1.0}, "kl must not be negative"),
        ({"n": 0}, "n must be a whole number"),
        ({"delta": 1.5}, "delta must lie strictly"),
        ({"charge": -1.0}, "charge must not be negative"),
    ],
)
def test_bad_input_is_named(wrong, message):
    arguments = {"risk": 0.1, "kl": 1.0, "n": 100, "delta": 0.05, "eta": 10.0} | wrong
    with pytest.raises(CurvboundError, match=message):
        pac_bayes_hoeffding(**arguments)
    if "eta" not in wrong:
        del arguments["eta"]
        with pytest.raises(CurvboundError, match=message):
            pac_bayes_hoeffding_grid(**arguments)
