"""The posterior of 000 eq. 6: it is the minimum it claims to be, with its limits and its grid."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from curvbound import CurvboundError
from curvbound.bounds import LogGrid
from curvbound.certificates.closed_form import BlockCurvature, closed_form
from curvbound.gaussians import isotropic
from oracles.gaussians import dense_covariance, orthogonal, positive

FINE = LogGrid(precision=10.0, largest=10.0)


def one_layer(rows=2, columns=3, seed=0, basis=True, scale=0.3):
    generator = torch.Generator().manual_seed(seed)
    mean = {"fc.weight": torch.randn(rows, columns, generator=generator, dtype=torch.float64)}
    start = {"fc.weight": mean["fc.weight"] - scale}
    curvature = BlockCurvature(
        positive((rows, columns), seed, 1e-3, 10.0),
        orthogonal(rows, seed + 1) if basis else None,
        orthogonal(columns, seed + 2) if basis else None,
    )
    return mean, start, curvature


def dense_curvature(curvature):
    left = torch.eye(len(curvature.values)) if curvature.left is None else curvature.left
    right = torch.eye(curvature.values.shape[1]) if curvature.right is None else curvature.right
    basis = torch.kron(left.double(), right.double())
    return basis @ torch.diag(curvature.values.reshape(-1)) @ basis.T


def lagrangian(hessian, covariance, distance, prior, beta):
    """C_beta of a full covariance: expected quadratic loss plus beta KL."""
    size = len(hessian)
    kl = 0.5 * (
        np.trace(covariance) / prior
        - size
        + size * math.log(prior)
        - np.linalg.slogdet(covariance)[1]
        + distance / prior
    )
    return 0.5 * np.trace(hessian @ covariance) + beta * kl


@pytest.mark.parametrize("beta", [1e-3, 1e-1])
@pytest.mark.parametrize("seed", range(3))
def test_no_gaussian_covariance_has_a_smaller_lagrangian(beta, seed):
    mean, start, curvature = one_layer(seed=seed)
    form = closed_form({"fc": curvature}, mean, start, beta, grids={"fc": FINE})
    prior = FINE.scale(form.indices["fc"])
    hessian = dense_curvature(curvature).numpy()
    distance = float((mean["fc.weight"] - start["fc.weight"]).square().sum())
    ours = dense_covariance(form.posterior).numpy()
    best = lagrangian(hessian, ours, distance, prior, beta)
    size = len(hessian)
    lower = np.tril_indices(size)

    def value(entries):
        factor = np.zeros((size, size))
        factor[lower] = entries
        return lagrangian(hessian, factor @ factor.T, distance, prior, beta)

    begin = 0.5 * math.sqrt(prior) * np.eye(size)[lower]
    found = minimize(value, begin, method="BFGS", options={"gtol": 1e-9, "maxiter": 3000})
    assert best <= found.fun * (1 + 1e-13)
    assert found.fun == pytest.approx(best, rel=1e-9)
    # ... which is beta (H + beta/lambda I)^-1
    expected = beta * np.linalg.inv(hessian + beta / prior * np.eye(size))
    np.testing.assert_allclose(ours, expected, rtol=1e-10, atol=1e-14)


def test_it_is_the_bayes_posterior_of_linear_regression():
    """Gaussian noise s^2 and beta = s^2/N give the textbook covariance (T-12)."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(50, 4, generator=generator, dtype=torch.float64)
    noise, n = 0.3, 50
    moment = inputs.T @ inputs / n  # Hessian of 1/(2N) sum (w.x - y)^2
    values, vectors = torch.linalg.eigh(moment)
    mean = {"fc.weight": torch.randn(1, 4, generator=generator, dtype=torch.float64)}
    start = {"fc.weight": torch.zeros(1, 4, dtype=torch.float64)}
    curvature = {"fc": BlockCurvature(values[None, :], right=vectors)}
    form = closed_form(curvature, mean, start, noise**2 / n, grids={"fc": FINE})
    prior = FINE.scale(form.indices["fc"])
    bayes = torch.linalg.inv(inputs.T @ inputs / noise**2 + torch.eye(4).double() / prior)
    torch.testing.assert_close(dense_covariance(form.posterior), bayes, rtol=1e-10, atol=1e-14)
    # E_Q of the quadratic loss is L(mu) + 1/2 tr(H Sigma), exactly
    draws = torch.randn(200_000, 4, generator=generator, dtype=torch.float64)
    moved = draws @ torch.linalg.cholesky(bayes).T
    sampled = 0.5 * (moved @ moment * moved).sum(1).mean()
    assert float(sampled) == pytest.approx(0.5 * float((moment @ bayes).trace()), rel=0.02)


def test_limits_of_beta():
    mean, start, curvature = one_layer(basis=False)
    one = LogGrid(precision=1.0, largest=math.e)  # first point: variance 1

    def at(beta):
        return closed_form({"fc": curvature}, mean, start, beta, grids={"fc": one})

    def first(form):  # compare at one and the same prior
        return form.posterior.blocks["fc"].variance

    tiny, huge = at(1e-12), at(1e12)
    assert float(first(tiny).max()) < 1e-8
    prior = one.scale(huge.indices["fc"])
    np.testing.assert_allclose(first(huge).numpy(), prior, rtol=1e-9)
    distance = float((mean["fc.weight"] - start["fc.weight"]).square().sum())
    kl = huge.posterior.kl(isotropic(start, prior)).total
    assert kl == pytest.approx(distance / (2 * prior), rel=1e-9)


@given(st.floats(-6, 2), st.floats(0.01, 1.0))
def test_kl_falls_and_loss_grows_with_beta(exponent, step):
    mean, start, curvature = one_layer(seed=1, basis=False)
    prior = 0.3
    single = LogGrid(precision=0.01, largest=prior * math.exp(100))  # point 2 is next to 0

    def at(beta):
        form = closed_form({"fc": curvature}, mean, start, beta, grids={"fc": single})
        variance = form.posterior.blocks["fc"].variance
        kl = form.posterior.kl(isotropic(start, single.scale(1))).total
        return kl, float((curvature.values * variance).sum())

    (kl, loss), (less, more) = at(10**exponent), at(10 ** (exponent + step))
    assert less <= kl * (1 + 1e-12)
    assert more >= loss * (1 - 1e-12)


@given(
    st.floats(-4, 1).map(lambda e: 10.0**e),
    st.floats(-6, 1).map(lambda e: 10.0**e),
    st.integers(0, 5),
)
def test_the_prior_scale_is_the_best_point_of_its_grid(distance, beta, seed):
    mean, start, curvature = one_layer(seed=seed, scale=distance)
    form = closed_form({"fc": curvature}, mean, start, beta, grids={"fc": FINE})
    chosen = form.indices["fc"]

    h = curvature.values.numpy()
    square = float((mean["fc.weight"] - start["fc.weight"]).square().sum())

    def price(j):
        scale = FINE.scale(j)
        ratio = beta / (h + beta / scale) / scale
        kl = 0.5 * ((ratio - 1 - np.log(ratio)).sum() + square / scale)
        return 0.5 * (h * ratio * scale).sum() + beta * (kl + FINE.charge(j))

    best = min(map(price, range(1, 251)))
    assert price(chosen) <= best * (1 + 1e-9) + 1e-12


def test_scales_are_points_of_the_grid_and_paid_for():
    mean, start, curvature = one_layer()
    coarse = LogGrid(precision=0.5, largest=3.0)
    form = closed_form({"fc": curvature}, mean, start, 0.01, grids={"fc": coarse})
    assert form.indices["fc"] >= 1
    prior = coarse.scale(form.indices["fc"])
    expected = 0.01 / (curvature.values + 0.01 / prior)
    torch.testing.assert_close(form.posterior.blocks["fc"].variance, expected, rtol=1e-14, atol=0.0)


def test_diagonal_closed_form_is_that_of_003():
    """003 Lemma 8 without curvature drift and cap: sigma^2 = 1/(eta h + 1/tau) (T-13)."""
    mean, start, curvature = one_layer(basis=False)
    eta = 50.0
    form = closed_form({"fc": curvature}, mean, start, 1 / eta, grids={"fc": FINE})
    tau = FINE.scale(form.indices["fc"])
    lemma8 = 1.0 / (eta * curvature.values + 1.0 / tau)
    torch.testing.assert_close(form.posterior.blocks["fc"].variance, lemma8, rtol=1e-14, atol=0.0)


def test_flat_directions_keep_the_prior_variance():
    mean, start, _ = one_layer()
    flat = BlockCurvature(torch.zeros(2, 3, dtype=torch.float64))
    form = closed_form({"fc": flat}, mean, start, 0.01, grids={"fc": FINE})
    prior = FINE.scale(form.indices["fc"])
    np.testing.assert_allclose(form.posterior.blocks["fc"].variance.numpy(), prior, rtol=1e-14)


@pytest.mark.parametrize("beta", [0.0, -1.0, float("nan"), float("inf")])
def test_beta_must_be_positive(beta):
    mean, start, curvature = one_layer()
    with pytest.raises(CurvboundError, match="beta must be a positive number"):
        closed_form({"fc": curvature}, mean, start, beta, grids={"fc": FINE})


def test_every_layer_needs_curvature():
    mean, start, _ = one_layer()
    with pytest.raises(CurvboundError, match="no curvature for layer 'fc'"):
        closed_form({}, mean, start, 0.1, grids={"fc": FINE})


@pytest.mark.parametrize("beta", [1e-3, 1.0])
def test_a_mean_that_may_move_minimises_the_same_objective(beta):
    mean, start, curvature = one_layer(seed=4)
    form = closed_form({"fc": curvature}, mean, start, beta, grids={"fc": FINE}, keep_mean=False)
    prior = FINE.scale(form.indices["fc"])
    hessian = dense_curvature(curvature)
    target, origin = mean["fc.weight"].reshape(-1), start["fc.weight"].reshape(-1)
    # gradient of 1/2 (m - target)^T H (m - target) + beta/(2 lambda) |m - origin|^2
    reached = form.posterior.mean["fc.weight"].reshape(-1)
    gradient = hessian @ (reached - target) + beta / prior * (reached - origin)
    torch.testing.assert_close(gradient, torch.zeros_like(gradient), rtol=0.0, atol=1e-12)
    kept = closed_form({"fc": curvature}, mean, start, beta, grids={"fc": FINE})
    assert torch.equal(kept.posterior.mean["fc.weight"], mean["fc.weight"])
    divergence = form.posterior.kl(isotropic(start, prior)).total
    assert divergence < kept.posterior.kl(isotropic(start, FINE.scale(kept.indices["fc"]))).total
