"""Hold-out bounds against exact binomial tails."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

from curvbound.bounds import chernoff, clopper_pearson, error_rate, kl_chernoff_limit
from curvbound.errors import CurvboundError


def binomial_tail(k: int, n: int, p: float) -> mpf:
    """Return the probability of at most k errors in n trials, to 30 digits."""
    with mp.workdps(40):
        p = mpf(p)
        term = total = mp.exp(
            mp.loggamma(n + 1)
            - mp.loggamma(k + 1)
            - mp.loggamma(n - k + 1)
            + k * mp.log(p)
            + (n - k) * mp.log1p(-p)
        )
        for i in range(k, 0, -1):
            term *= i * (1 - p) / ((n - i + 1) * p)
            total += term
            if term < total * mpf(10) ** -35:
                break
        return total


def test_clopper_pearson_is_just_above_the_exact_limit():
    rng = np.random.default_rng(6)
    cases = [(5, 5017313, 0.41967618481195573)]  # here scipy's inverse is 8e-11 too small
    for _ in range(120):
        n = int(10 ** rng.uniform(0.0, 7.0))
        k = min(n - 1, 20000, int(n * 10 ** rng.uniform(-7.0, 0.0)))
        cases.append((k, n, float(10 ** rng.uniform(-12.0, -0.3))))
    for k, n, delta in cases:
        p = clopper_pearson(k, n, delta)
        assert p == 1.0 or binomial_tail(k, n, p) <= delta
        assert binomial_tail(k, n, p * (1 - 1e-9)) > delta


def test_no_errors_and_nothing_but_errors():
    assert clopper_pearson(0, 100, 0.05) == pytest.approx(1.0 - 0.05**0.01, rel=1e-10)
    assert clopper_pearson(0, 1, 0.05) == pytest.approx(0.95, rel=1e-10)
    assert clopper_pearson(10, 10, 0.05) == chernoff(10, 10, 0.05) == 1.0


@given(st.integers(1, 10**6), st.floats(0.0, 1.0), st.floats(1e-9, 0.5))
def test_chernoff_is_above_clopper_pearson(n, share, delta):
    errors = int(share * n)
    assert errors / n <= clopper_pearson(errors, n, delta) <= chernoff(errors, n, delta) + 1e-9


def test_chernoff_is_the_kl_limit_of_the_rate():
    assert chernoff(31, 1000, 0.01) == kl_chernoff_limit(error_rate(31, 1000), 1000, 0.01)


@pytest.mark.parametrize("bound", [chernoff, clopper_pearson])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((11, 10, 0.05), "cannot happen"),
        ((-1, 10, 0.05), "errors must be a whole number"),
        ((0.5, 10, 0.05), "errors must be a whole number"),
        ((0, 0, 0.05), "number of trials must be"),
        ((1, 10, 0.0), "delta must lie strictly"),
        ((1, 10, 1.0), "delta must lie strictly"),
    ],
)
def test_bad_input_is_named(bound, arguments, message):
    with pytest.raises(CurvboundError, match=message):
        bound(*arguments)
