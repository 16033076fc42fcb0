import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from curvbound.gaussians import (
    Gaussian,
    diagonal,
    isotropic,
    kronecker,
)
from oracles.gaussians import (
    STRUCTURES,
    dense_covariance,
    dense_kl,
    exact_gaussian_kl,
    flat_mean,
    network_parameters,
    orthogonal,
    positive,
    random_gaussian,
)


def make(structure: str, seed: int = 0) -> Gaussian:
    return random_gaussian(network_parameters(seed), structure, seed)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("prior_structure", STRUCTURES)
def test_kl_equals_the_dense_formula(structure, prior_structure):
    posterior, prior = make(structure), make(prior_structure, seed=1)
    found = posterior.kl(prior)
    expected = dense_kl(
        flat_mean(posterior), dense_covariance(posterior), flat_mean(prior), dense_covariance(prior)
    )
    assert found.total == pytest.approx(expected, rel=1e-11)
    assert found.total == pytest.approx(math.fsum(found.layers.values()), rel=1e-15)
    assert list(found.layers) == ["fc", "conv", "norm", "scale"]


@pytest.mark.parametrize("structure", STRUCTURES)
def test_kl_from_itself_is_zero_rounded_up(structure):
    gaussian = make(structure)
    assert 0 <= gaussian.kl(make(structure)).total < 1e-11


def test_baseline_is_exactly_the_distance_over_twice_the_variance():
    posterior, prior = isotropic(network_parameters(0), 0.3), isotropic(network_parameters(1), 0.3)
    squared = float((flat_mean(posterior) - flat_mean(prior)).square().sum())
    assert posterior.kl(prior).total == pytest.approx(squared / 0.6, rel=1e-11)


@given(st.integers(0, 1000), st.floats(1e-3, 1e3))
@settings(deadline=None, max_examples=25)
def test_kl_against_an_isotropic_prior_does_not_depend_on_the_basis(seed, scale):
    rotated = make("kronecker", seed=seed)
    prior = isotropic(network_parameters(seed + 1), scale)
    mean = rotated.mean
    straight = kronecker(mean, {name: block.variance for name, block in rotated.blocks.items()})
    assert rotated.kl(prior).total == pytest.approx(straight.kl(prior).total, rel=1e-12)


@given(
    st.floats(-60, 60),
    st.floats(-60, 60),
    st.floats(-30, 30),
)
@settings(deadline=None, max_examples=200)
def test_kl_is_an_upper_bound_with_small_error_for_extreme_ratios(log_s, log_p, distance):
    variance, scale = 10.0**log_s, 10.0**log_p
    mean = {"w": torch.tensor([distance], dtype=torch.float64)}
    prior_mean = {"w": torch.tensor([0.0], dtype=torch.float64)}
    found = isotropic(mean, variance).kl(isotropic(prior_mean, scale)).total
    exact = exact_gaussian_kl(variance, scale, distance)
    # Squares below 1e-308 have lost digits; they are too small to matter and still rounded up.
    assert exact <= found <= exact * (1 + 1e-11) + 1e-280


def test_kl_is_accurate_when_posterior_and_prior_almost_agree():
    mean = {"w": torch.zeros(100_000, dtype=torch.float64)}
    variance = 1.0 + 1e-9
    found = isotropic(mean, variance).kl(isotropic(mean, 1.0)).total
    exact = 100_000 * exact_gaussian_kl(variance, 1.0, 0.0)
    assert exact <= found <= exact * (1 + 1e-11)


def test_kl_with_a_million_parameters_stays_above_the_exact_sum():
    generator = torch.Generator().manual_seed(0)
    count = 1_000_000
    mean = {"w": torch.randn(count, generator=generator)}
    zeros = {"w": torch.zeros(count)}
    variance = positive((count,), 1, 1e-6, 1.0)
    found = diagonal(mean, {"w": variance}).kl(isotropic(zeros, 0.25)).total
    ratio = (variance.numpy() / 0.25).astype(np.longdouble)
    squares = mean["w"].numpy().astype(np.longdouble) ** 2 / 0.25
    exact = float(0.5 * (ratio - 1 - np.log(ratio) + squares).sum())
    assert exact <= found <= exact * (1 + 1e-11)


def test_divergence_accounts_for_bases_that_are_not_quite_orthogonal():
    mean = {"w": torch.zeros(4, 5, dtype=torch.float64)}
    stretch = torch.eye(5, dtype=torch.float64) * (1 - 2e-11)
    basis = orthogonal(5, 0) @ stretch
    variance = {"w": positive((4, 5), 0)}
    posterior, prior = kronecker(mean, variance, right={"w": basis}), isotropic(mean, 20.0)
    assert torch.equal(posterior.blocks["w"].right, basis)
    exact = dense_kl(
        flat_mean(posterior), dense_covariance(posterior), flat_mean(prior), dense_covariance(prior)
    )
    assert exact - 1e-13 <= posterior.kl(prior).total <= exact + 1e-8
    straight = kronecker(mean, variance).kl(prior).total
    assert straight < exact - 1e-10  # what a basis taken for orthogonal would give


@given(st.floats(-9, 2), st.floats(-6, 3), st.floats(-9, 9), st.floats(-2, 2))
@settings(deadline=None, max_examples=80)
def test_closed_form_posterior_has_its_known_divergence(log_h, log_l, log_beta, distance):
    # 000-C4: s = beta / (h + beta/l) gives 1/2 [log1p(x) - x/(1+x) + d^2/l] with x = l h / beta.
    h, scale, beta = 10.0**log_h, 10.0**log_l, 10.0**log_beta
    x = scale * h / beta
    posterior = isotropic({"w": torch.tensor([distance]).double()}, beta / (h + beta / scale))
    prior = isotropic({"w": torch.zeros(1).double()}, scale)
    distance = float(posterior.mean["w"])
    expected = 0.5 * (math.log1p(x) - x / (1 + x) + distance**2 / scale)
    assert posterior.kl(prior).total == pytest.approx(expected, rel=1e-9, abs=1e-14)


def test_rounding_of_sums_never_leads_below_the_exact_value():
    rng = np.random.default_rng(0)
    for _ in range(60):
        variance, distance = 10.0 ** rng.uniform(-3, 1, 50), rng.normal(size=50)
        mean = {"w": torch.from_numpy(distance)}
        prior = isotropic({"w": torch.zeros(50, dtype=torch.float64)}, 0.3)
        found = diagonal(mean, {"w": torch.from_numpy(variance)}).kl(prior).total
        pairs = zip(variance, distance, strict=True)
        exact = sum(exact_gaussian_kl(float(s), 0.3, float(d)) for s, d in pairs)
        # Half of the documented margin must be left over after all rounding.
        assert exact * (1 + 5e-13) <= found <= exact * (1 + 1e-11)
