"""Lemma 4.2 of 000 against printed numbers, high precision, direct optimisation and its limits."""

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from curvbound import CurvboundError
from curvbound.certificates.feasibility import optimal_prior_lower_bound

wide = st.floats(-20, 20).map(lambda e: 10.0**e)


def lagrangian(h, d, beta, prior, posterior):
    kl = 0.5 * (posterior / prior - 1 - np.log(posterior / prior) + d**2 / prior)
    return 0.5 * h * posterior + beta * kl


def test_printed_example() -> None:
    found = optimal_prior_lower_bound(np.array([2.0]), np.array([0.3]), 0.01)
    assert found.kl == pytest.approx(1.49661142306, abs=5e-12)
    assert found.loss == pytest.approx(0.00474937185533, abs=5e-15)
    assert found.value == pytest.approx(0.019715486086, abs=5e-13)
    assert found.posterior_variance[0] == pytest.approx(0.00474937185533, abs=5e-15)
    assert found.prior_variance[0] == pytest.approx(0.0947493718553, abs=5e-14)
    assert found.kind == "oracle"


@given(wide, wide, wide)
def test_closed_form_keeps_its_digits_over_forty_decades(h: float, d: float, beta: float) -> None:
    found = optimal_prior_lower_bound([h], [d], beta)
    with mpmath.workdps(120):
        h_, d_, b_ = mpmath.mpf(h), mpmath.mpf(d), mpmath.mpf(beta)
        a = (mpmath.sqrt(h_**2 + 4 * b_ * h_ / d_**2) - h_) / 2  # 000 eq. 7, printed form
        prior, posterior = b_ / a, b_ / (h_ + a)
        kl = (posterior / prior - 1 - mpmath.log(posterior / prior) + d_**2 / prior) / 2
    assert found.prior_variance[0] == pytest.approx(float(prior), rel=1e-13)
    assert found.posterior_variance[0] == pytest.approx(float(posterior), rel=1e-13)
    assert found.kl == pytest.approx(float(kl), rel=1e-13)


@given(st.floats(0.01, 10), st.floats(0.01, 3), st.floats(0.001, 2))
def test_no_diagonal_pair_does_better(h: float, d: float, beta: float) -> None:
    found = optimal_prior_lower_bound([h], [d], beta)
    best = minimize(
        lambda logs: lagrangian(h, d, beta, *np.exp(logs)) / found.value,
        [np.log(d * d), np.log(beta / h)],
    )
    assert best.fun >= 1 - 1e-9
    assert best.fun == pytest.approx(1.0, rel=1e-4)


def test_degenerate_coordinates_cost_nothing() -> None:
    found = optimal_prior_lower_bound([0.0, 3.0, 0.0], [1.0, 0.0, 0.0], 0.1)
    assert found.kl == found.value == found.loss == 0
    assert np.isinf(found.prior_variance[[0, 2]]).all()
    assert found.prior_variance[1] == found.posterior_variance[1] == 0


def test_negative_curvature_is_clamped_and_counted() -> None:
    found = optimal_prior_lower_bound([-1.0, 2.0], [1.0, 0.3], 0.01)
    assert found.clamped == 1
    assert found.kl == optimal_prior_lower_bound([2.0], [0.3], 0.01).kl


def test_tensors_in_tensors_out() -> None:
    found = optimal_prior_lower_bound(torch.ones(2, 3), torch.ones(2, 3), 0.1)
    assert isinstance(found.prior_variance, torch.Tensor)
    assert found.prior_variance.shape == (2, 3)


@pytest.mark.parametrize(
    ("h", "d", "beta", "message"),
    [
        ([1.0], [1.0, 2.0], 0.1, "one curvature and one"),
        ([1.0], [1.0], 0.0, "beta must be a positive"),
        ([float("nan")], [1.0], 0.1, "not finite"),
    ],
)
def test_bad_input(h, d, beta, message: str) -> None:
    with pytest.raises(CurvboundError, match=message):
        optimal_prior_lower_bound(h, d, beta)
