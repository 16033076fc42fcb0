import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from curvbound.errors import CurvboundError
from curvbound.gaussians import LowRank, diagonal, from_tensors, isotropic, kronecker
from curvbound.gaussians.layout import layouts_of
from oracles.gaussians import (
    covariance_statistic,
    dense_kl,
    network_parameters,
    normal_limit,
    orthogonal,
    positive,
)

SCALES = {"fc": 0.5, "conv": 0.1, "norm": 2.0, "scale": 0.03}


def flat(parameters):
    return torch.cat([tensor.reshape(-1) for tensor in parameters.values()]).double()


def flat_scales(mean, scales):
    owner = {p: name for name, layout in layouts_of(mean).items() for p in layout.parameters}
    return torch.cat(
        [torch.full((t.numel(),), scales[owner[n]], dtype=torch.float64) for n, t in mean.items()]
    )


def make(rank=5, beta=0.3, size=1.0, scales=SCALES):
    mean = network_parameters()
    generator = torch.Generator().manual_seed(1)
    count = sum(tensor.numel() for tensor in mean.values())
    gradients = size * torch.randn(rank, count, generator=generator)
    precision = gradients.double().T @ gradients.double() + torch.diag(
        beta / flat_scales(mean, scales)
    )
    return LowRank(mean, gradients, beta, scales), beta * torch.linalg.inv(precision)


@pytest.mark.parametrize("rank", [1, 5, 40])
@pytest.mark.parametrize("factor", [1.0, 0.4, 7.0])
def test_kl_equals_the_dense_formula(rank, factor):
    posterior, covariance = make(rank)
    scales = {name: factor * scale for name, scale in SCALES.items()}
    mean = network_parameters(3)
    expected = dense_kl(
        flat(posterior.mean), covariance, flat(mean), torch.diag(flat_scales(mean, scales))
    )
    found = posterior.kl(isotropic(mean, scales))
    assert expected <= found.total <= expected * (1 + 1e-9)
    assert set(found.layers) == {*SCALES, "(covariance)"}


@given(st.floats(-8, 8), st.floats(-4, 4), st.integers(1, 6))
@settings(deadline=None, max_examples=40)
def test_kl_with_one_gradient_is_known_in_closed_form(size, log_beta, count):
    beta, scale = 10.0**log_beta, 0.7
    gradient = torch.full((1, count), 10.0**size, dtype=torch.float64)
    mean = {"w": torch.zeros(count)}
    found = LowRank(mean, gradient, beta, scale).kl(isotropic(mean, scale)).total
    e = count * 10.0 ** (2 * size) * scale / beta
    exact = 0.5 * (np.log1p(e) - e / (1 + e)) if e > 1e-4 else e * e / 4 - e**3 / 3
    assert exact * (1 - 1e-9) <= found <= exact * (1 + 1e-6) + 1e-12 * (1 + e)


def test_a_diagonal_problem_agrees_with_the_diagonal_posterior():
    # Orthogonal unit gradients along the axes: eq. 6 coordinate by coordinate.
    mean = {"w": torch.zeros(4)}
    heights = torch.tensor([4.0, 1.0, 0.25, 0.0625], dtype=torch.float64)
    beta, scale = 0.2, 0.9
    posterior = LowRank(mean, torch.diag(heights.sqrt()), beta, scale)
    reference = diagonal(mean, {"w": beta / (heights + beta / scale)})
    prior = isotropic({"w": torch.ones(4)}, 0.5)
    assert posterior.kl(prior).total == pytest.approx(reference.kl(prior).total, rel=1e-9)
    point = {"w": torch.tensor([0.1, -0.2, 0.3, 0.4], dtype=torch.float64)}
    assert posterior.log_prob(point) == pytest.approx(reference.log_prob(point), rel=1e-12)


@pytest.mark.parametrize("size", [1.0, 100.0])
def test_samples_have_the_covariance_of_the_divergence(size):
    posterior, covariance = make(size=size)
    generator = torch.Generator().manual_seed(2)
    draws = [flat(posterior.sample(generator, dtype=torch.float64)) for _ in range(1000)]
    # In the basis of the covariance itself stiff directions count as much as loose ones.
    values, vectors = torch.linalg.eigh(covariance)
    scaled = (torch.stack(draws) - flat(posterior.mean)) @ vectors / values.sqrt()
    count = len(values)
    statistic = covariance_statistic(scaled.numpy(), np.zeros(count), np.eye(count))
    assert statistic < normal_limit(count * count + count)


def test_log_prob_equals_the_dense_density():
    posterior, covariance = make()
    drawn = posterior.sample(torch.Generator().manual_seed(3), dtype=torch.float64)
    dense = torch.distributions.MultivariateNormal(flat(posterior.mean), covariance)
    assert posterior.log_prob(drawn) == pytest.approx(float(dense.log_prob(flat(drawn))), rel=1e-9)
    prior = isotropic(network_parameters(1), SCALES)
    difference = posterior.log_prob(drawn) - prior.log_prob(drawn)
    assert difference <= posterior.log_ratio(prior, drawn) <= difference + 1e-6


def test_storage_brings_back_the_same_distribution():
    posterior, _ = make()
    back = from_tensors(*posterior.to_tensors())
    prior = isotropic(network_parameters(1), 0.2)
    assert back.hash == posterior.hash
    assert back.kl(prior).total == posterior.kl(prior).total
    tensors, description = posterior.to_tensors()
    with pytest.raises(CurvboundError, match="must be numbers"):
        from_tensors({**tensors, "beta": torch.ones(2)}, description)
    del tensors["beta"]
    with pytest.raises(CurvboundError, match="lacks"):
        from_tensors(tensors, description)


def test_samples_are_in_the_precision_of_the_mean_by_default():
    posterior, _ = make()
    drawn = posterior.sample(torch.Generator().manual_seed(0))
    assert {tensor.dtype for tensor in drawn.values()} == {torch.float32}
    assert posterior.layer_noise == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gradients": torch.zeros(2, 3)}, "24 columns"),
        ({"gradients": torch.zeros(24)}, "24 columns"),
        ({"gradients": torch.zeros(0, 24)}, "at least one row"),
        ({"gradients": torch.full((1, 24), torch.nan)}, "NaN or infinite"),
        ({"beta": 0.0}, "beta must be positive"),
        ({"beta": float("nan")}, "beta must be positive"),
        ({"prior_variance": -1.0}, "positive and finite"),
    ],
)
def test_bad_input_gets_one_sentence(arguments, message):
    mean = network_parameters()
    size = sum(tensor.numel() for tensor in mean.values())
    assert size == 24
    good = {"gradients": torch.ones(2, size), "beta": 1.0, "prior_variance": 1.0}
    with pytest.raises(CurvboundError, match=message):
        LowRank(mean, **{**good, **arguments})


def test_priors_without_one_variance_per_layer_are_refused():
    posterior, _ = make()
    mean = network_parameters()
    uneven = diagonal(mean, {name: positive(tuple(t.shape), 0) for name, t in mean.items()})
    turned = kronecker(
        mean,
        {name: positive((b.rows, b.columns), 1) for name, b in layouts_of(mean).items()},
        right={"fc": orthogonal(5, 0)},
    )
    for prior in (uneven, turned, posterior):
        with pytest.raises(CurvboundError, match="one variance in every layer"):
            posterior.kl(prior)
    with pytest.raises(CurvboundError, match="low_rank prior"):
        uneven.kl(posterior)
    with pytest.raises(CurvboundError, match="another architecture"):
        posterior.kl(isotropic({"w": torch.zeros(24)}, 1.0))
