import math

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from curvbound.errors import CurvboundError
from curvbound.gaussians import (
    TruncatedGaussian,
    Uniform,
    diagonal,
    from_tensors,
    isotropic,
    kronecker,
    largest_deviation,
)
from curvbound.gaussians.layout import layouts_of
from oracles.gaussians import network_parameters, normal_limit, orthogonal, positive


def line(centre: float, deviation: float, radius: float) -> TruncatedGaussian:
    return TruncatedGaussian({"w": torch.tensor([centre], dtype=torch.float64)}, deviation, radius)


def line_prior(variance: float):
    return isotropic({"w": torch.zeros(1, dtype=torch.float64)}, variance)


def exact_kl(centre: float, deviation: float, radius: float, variance: float) -> mpmath.mpf:
    w, sigma, kappa, tau = map(mpmath.mpf, (centre, deviation, radius, variance))
    with mpmath.workdps(120):
        a = kappa / sigma
        mass = mpmath.erf(a / mpmath.sqrt(2))
        density = mpmath.exp(-a * a / 2) / mpmath.sqrt(2 * mpmath.pi)
        v = sigma**2 * (1 - 2 * a * density / mass)
        two_pi = 2 * mpmath.pi
        return (
            -mpmath.log(mass) - mpmath.log(two_pi * sigma**2) / 2 - v / (2 * sigma**2)
            + mpmath.log(two_pi * tau) / 2 + (w**2 + v) / (2 * tau)
        )  # fmt: skip


@given(st.floats(-3, 3), st.floats(-8, 8), st.floats(-12, 4), st.floats(-6, 6))
@settings(deadline=None, max_examples=120)
def test_kl_is_an_upper_bound_with_small_error(centre, log_sigma, log_ratio, log_tau):
    sigma, tau = 10.0**log_sigma, 10.0**log_tau
    kappa = sigma * 10.0**log_ratio
    exact = exact_kl(centre, sigma, kappa, tau)
    found = line(centre, sigma, kappa).kl(line_prior(tau)).total
    assert exact <= found <= exact * (1 + 1e-10) + 1e-10


def test_kl_agrees_with_quadrature():
    from scipy.integrate import quad
    from scipy.stats import norm, truncnorm

    centre, sigma, kappa, tau = 0.4, 0.7, 0.9, 1.3
    law = truncnorm(-kappa / sigma, kappa / sigma, loc=centre, scale=sigma)
    prior = norm(0.0, math.sqrt(tau))
    exact, _ = quad(
        lambda x: law.pdf(x) * (law.logpdf(x) - prior.logpdf(x)), centre - kappa, centre + kappa
    )
    assert line(centre, sigma, kappa).kl(line_prior(tau)).total == pytest.approx(exact, rel=1e-9)


def test_limits_are_the_gaussian_and_the_uniform_law():
    sigma, tau = 0.3, 0.8
    wide = line(0.2, sigma, 50 * sigma).kl(line_prior(tau)).total
    mean = {"w": torch.tensor([0.2], dtype=torch.float64)}
    assert wide == pytest.approx(isotropic(mean, sigma**2).kl(line_prior(tau)).total, rel=1e-10)
    # A huge sigma leaves the uniform law on the interval: KL = E ln(1/(2 kappa)) - E ln p.
    kappa = 0.4
    flat = line(0.2, 1e9, kappa).kl(line_prior(tau)).total
    second = 0.2**2 + kappa**2 / 3
    expected = -math.log(2 * kappa) + 0.5 * math.log(2 * math.pi * tau) + second / (2 * tau)
    assert flat == pytest.approx(expected, rel=1e-10)
    assert float(line(0.0, 1e9, kappa).second_moment()["w"]) == pytest.approx(kappa**2 / 3)
    # sigma -> 0: the divergence grows like ln(1/sigma).
    steps = [line(0.0, 10.0**-k, 1.0).kl(line_prior(1.0)).total for k in (3, 4, 5)]
    assert steps[1] - steps[0] == pytest.approx(math.log(10), rel=1e-5)
    assert steps[2] - steps[1] == pytest.approx(math.log(10), rel=1e-6)


@given(st.floats(-2, 2), st.floats(0.2, 3), st.floats(0.05, 5))
@settings(deadline=None, max_examples=60)
def test_the_factor_two_route_is_valid_when_half_of_the_mass_stays(centre, sigma, tau):
    # 003 eq. 17: KL(truncated) <= 2 (KL + 1) when Z >= 1/2.
    kappa = 0.6745 * sigma
    plain = isotropic({"w": torch.tensor([centre], dtype=torch.float64)}, sigma**2)
    exact = line(centre, sigma, kappa).kl(line_prior(tau)).total
    assert exact <= 2 * (plain.kl(line_prior(tau)).total + 1)


def test_threshold_for_the_deviation():
    assert largest_deviation(1.0, 1000) == pytest.approx(0.2873, abs=5e-5)
    mass = math.erf(1 / (math.sqrt(2) * largest_deviation(1.0, 1000))) ** 1000
    assert mass == pytest.approx(0.6065, abs=5e-5)
    for count in (1, 10**6, 10**12, 10**17):
        found = largest_deviation(2.0, count)
        tail = mpmath.erfc(mpmath.mpf(2.0) / (mpmath.sqrt(2) * mpmath.mpf(found)))
        assert float(tail * 2 * count) == pytest.approx(1.0, rel=1e-9)
    with pytest.raises(CurvboundError, match="radius must be positive"):
        largest_deviation(0.0, 10)
    with pytest.raises(CurvboundError, match="at least 1"):
        largest_deviation(1.0, 0)


def make() -> TruncatedGaussian:
    mean = network_parameters()
    deviations = {name: positive(tuple(t.shape), 1) for name, t in mean.items()}
    radii = {name: positive(tuple(t.shape), 2) for name, t in mean.items()}
    return TruncatedGaussian(mean, deviations, radii)


def test_samples_follow_the_truncated_law():
    from scipy.stats import kstest, truncnorm

    posterior = make()
    generator = torch.Generator().manual_seed(0)
    draws = [posterior.sample(generator, dtype=torch.float64) for _ in range(800)]
    for name, sigma in posterior.deviation.items():
        noise = torch.stack([d[name] for d in draws]) - posterior.mean[name].double()
        noise = noise.reshape(len(draws), -1)
        radius, sigma = posterior.radius[name].reshape(-1), sigma.reshape(-1)
        assert (noise.abs() <= radius * (1 + 1e-12)).all()
        for i in range(len(sigma)):
            a = float(radius[i] / sigma[i])
            law = truncnorm(-a, a, scale=float(sigma[i]))
            assert kstest(noise[:, i].numpy(), law.cdf).pvalue > 1e-6
            second = float(posterior.second_moment()[name].reshape(-1)[i])
            assert second == pytest.approx(law.var(), rel=1e-6)
            spread = float(noise[:, i].square().std()) / math.sqrt(len(draws))
            assert abs(float(noise[:, i].square().mean()) - second) < normal_limit(30) * spread


def test_log_prob_equals_scipy_and_averages_to_the_divergence():
    from scipy.stats import truncnorm

    posterior = make()
    prior = isotropic({name: torch.zeros_like(t) for name, t in posterior.mean.items()}, 0.7)
    generator = torch.Generator().manual_seed(1)
    drawn = posterior.sample(generator, dtype=torch.float64)
    expected = 0.0
    for name, sigma in posterior.deviation.items():
        a = (posterior.radius[name] / sigma).numpy()
        centre = posterior.mean[name].double().numpy()
        law = truncnorm(-a, a, loc=centre, scale=sigma.numpy())
        expected += float(law.logpdf(drawn[name].numpy()).sum())
    assert posterior.log_prob(drawn) == pytest.approx(expected, rel=1e-9)
    outside = {**drawn, "scale": posterior.mean["scale"].double() + 10}
    assert posterior.log_prob(outside) == -math.inf
    ratios = torch.tensor(
        [
            posterior.log_ratio(prior, posterior.sample(generator, dtype=torch.float64))
            for _ in range(300)
        ]
    )
    error = normal_limit(1) * float(ratios.std()) / math.sqrt(len(ratios))
    assert abs(float(ratios.mean()) - posterior.kl(prior).total) < error


def test_storage_brings_back_the_same_distribution():
    posterior = make()
    back = from_tensors(*posterior.to_tensors())
    prior = isotropic(posterior.mean, 1.0)
    assert back.hash == posterior.hash
    assert back.kl(prior).total == posterior.kl(prior).total


def test_diagonal_priors_are_supported_and_rotated_ones_refused():
    posterior = make()
    mean = posterior.mean
    even = diagonal(mean, {name: torch.full_like(t, 0.5) for name, t in mean.items()})
    assert posterior.kl(even).total == pytest.approx(posterior.kl(isotropic(mean, 0.5)).total)
    turned = kronecker(
        mean,
        {name: positive((b.rows, b.columns), 1) for name, b in layouts_of(mean).items()},
        right={"fc": orthogonal(5, 0)},
    )
    for prior in (turned, Uniform(mean, 9.0)):
        with pytest.raises(CurvboundError, match="without rotated bases"):
            posterior.kl(prior)


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan")])
def test_bad_scales_are_refused(bad):
    mean = {"w": torch.zeros(2)}
    with pytest.raises(CurvboundError, match="deviation of parameter 'w'"):
        TruncatedGaussian(mean, bad, 1.0)
    with pytest.raises(CurvboundError, match="radius of parameter 'w'"):
        TruncatedGaussian(mean, 1.0, bad)
