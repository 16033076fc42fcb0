"""The single-draw bound as a formula; its coverage is in test_coverage.py."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curvbound.bounds import kl_inverse, pac_bayes_kl, single_draw_kl
from curvbound.errors import CurvboundError


@given(st.floats(0.0, 1.0), st.floats(0.0, 1e5), st.integers(3, 10**6), st.floats(1e-9, 0.9))
def test_like_the_kl_bound_with_the_log_ratio_in_place_of_kl(risk, ratio, n, delta):
    for constant in ("maurer", "exact", "000", "001"):
        assert single_draw_kl(risk, ratio, n, delta, constant=constant) == pac_bayes_kl(
            risk, ratio, n, delta, constant=constant
        )


def test_negative_log_ratios_help_until_the_budget_is_zero():
    n, delta = 1000, 0.05
    nats = math.log(2.0 * math.sqrt(n) / delta)
    assert single_draw_kl(0.1, -2.0, n, delta) == pytest.approx(
        kl_inverse(0.1, (nats - 2.0) / n), rel=1e-14
    )
    assert single_draw_kl(0.1, -2.0 * nats, n, delta) == 0.1
    assert single_draw_kl(0.1, -2.0 * nats, n, delta, charge=2.0 * nats) == pytest.approx(
        kl_inverse(0.1, nats / n), rel=1e-14
    )


def test_spread_of_the_log_ratio_of_a_closed_form_network():
    # 75 nats, the spread seen for 784-600-2, are worth about .003 at n = 60000
    middle = single_draw_kl(0.05, 3000.0, 60000, 0.05)
    assert single_draw_kl(0.05, 3075.0, 60000, 0.05) - middle == pytest.approx(0.002, abs=1e-3)


@pytest.mark.parametrize(
    ("ratio", "message"), [(math.nan, "log_ratio is NaN"), (-math.inf, "log_ratio is -inf")]
)
def test_bad_log_ratio_is_named(ratio, message):
    with pytest.raises(CurvboundError, match=message):
        single_draw_kl(0.1, ratio, 100, 0.05)


def test_weights_outside_the_prior_give_one():
    assert single_draw_kl(0.1, math.inf, 100, 0.05) == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.1, 0.0, 100, 0.05), "risk must lie in"),
        ((0.1, 0.0, 0, 0.05), "n must be a whole number"),
        ((0.1, 0.0, 100, 0.0), "delta must lie strictly"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(CurvboundError, match=message):
        single_draw_kl(*arguments)
