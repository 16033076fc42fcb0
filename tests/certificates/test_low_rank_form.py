"""The low-rank closed form against dense matrices."""

import pytest
import torch
from torch import nn

from curvbound import CurvboundError, Landscape
from curvbound.certificates.low_rank_form import closed_form_low_rank, sampled_gradients
from curvbound.curvature import fisher
from curvbound.gaussians import isotropic


@pytest.fixture
def land():
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    X = torch.randn(30, 4, generator=generator, dtype=torch.float64)
    return Landscape(model, (X, torch.arange(30) % 3), batch_size=7)


def test_all_rows_give_the_sampled_fisher_matrix(land):
    J = sampled_gradients(land, land.n, seed=3)
    F = fisher(land, labels="sampled", seed=3) @ torch.eye(land.size, dtype=torch.float64)
    assert torch.allclose(J.T @ J, F, atol=1e-14)


def test_some_rows_are_unbiased_and_repeatable(land):
    full = sampled_gradients(land, land.n, seed=3)
    some = sampled_gradients(land, 11, seed=3)
    assert torch.equal(some, sampled_gradients(land, 11, seed=3))
    scaled = some * (11 / land.n) ** 0.5
    distances = (scaled[:, None] - full[None]).norm(dim=2).amin(1)
    assert float(distances.max()) < 1e-12  # rows of the full matrix, with their labels


def test_covariance_and_divergence_are_those_of_the_dense_formula(land):
    beta, scale = 0.02, 0.3
    posterior = closed_form_low_rank(land, beta, scale, samples=12, seed=1)
    J = sampled_gradients(land, 12, seed=1)
    eye = torch.eye(land.size, dtype=torch.float64)
    covariance = beta * torch.linalg.inv(J.T @ J + beta / scale * eye)

    start = {name: p.detach() + 0.1 for name, p in land.parameters.items()}
    squared = 0.01 * land.size
    dense = 0.5 * float(
        covariance.trace() / scale
        - land.size
        + squared / scale
        - torch.linalg.slogdet(covariance / scale).logabsdet
    )
    assert posterior.kl(isotropic(start, scale)).total == pytest.approx(dense, rel=1e-10)

    generator = torch.Generator().manual_seed(0)
    mean = land.flatten(land.parameters.values())
    drawn = (posterior.sample(generator).values() for _ in range(4000))
    draws = torch.stack([land.flatten(weights) - mean for weights in drawn])
    empirical = draws.T @ draws / len(draws)
    # Each entry of a sample covariance has a standard error of at most sqrt(2/n) times the scale.
    assert float((empirical - covariance).abs().max()) < 5.5 * scale * (2 / 4000) ** 0.5


@pytest.mark.parametrize("samples", [0, 31])
def test_an_impossible_number_of_samples_is_refused(land, samples):
    with pytest.raises(CurvboundError, match="between 1 and the 30 examples"):
        sampled_gradients(land, samples)
