"""From a posterior to claims: seeds, counts, bounds and where they come from."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from curvbound import datasets
from curvbound.bounds import pac_bayes_kl, single_draw_kl
from curvbound.certificates.claims import (
    CHUNKS,
    CONSTANT,
    OBSERVATIONS,
    RandomisedNetwork,
    batches_of,
    content_seed,
    counted,
    drawn_network,
    drawn_weights,
    evaluate_claims,
    looseness,
    mistakes,
    passes_over,
    split_delta,
    with_weights,
)
from curvbound.certificates.record import Union
from curvbound.gaussians import NoisyNetwork, count_errors, isotropic
from oracles.gaussians import covariance_statistic, dense_covariance, flatten, normal_limit


@pytest.fixture(scope="module")
def world():
    """A linear network, its prior and posterior, and data."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(250, 3, generator=generator)
    data = datasets.Examples(inputs, (inputs[:, 0] > 0).long(), classes=2)
    model = nn.Linear(3, 2).eval()
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[-1.0, 0, 0], [1.0, 0, 0]]))
        model.bias.zero_()
    mean = dict(model.named_parameters())
    prior = isotropic({name: torch.zeros_like(tensor) for name, tensor in mean.items()}, 1.0)
    return model, prior, isotropic(mean, 0.2), data


def test_seeds_follow_from_the_content():
    assert content_seed("a", "b") == content_seed("a", "b")
    assert len({content_seed(*parts) for parts in (("a", "b"), ("b", "a"), ("ab",), ("a",))}) == 4
    assert 0 <= content_seed("a") < 2**48


@given(st.floats(1e-9, 0.999))
def test_the_parts_of_delta_add_up(delta):
    from decimal import Decimal

    parts = split_delta(delta)
    total = sum(Decimal(repr(part)) for part in parts.values())
    assert total <= Decimal(repr(delta))
    assert float(total) == pytest.approx(delta, rel=1e-14)
    assert parts["Monte Carlo"] == pytest.approx(delta / 5, rel=1e-5)


def test_the_claims_are_the_bounds_of_what_was_measured(world):
    model, prior, posterior, data = world
    found = evaluate_claims(model, prior, posterior, data, 0.05, charge=1.5)
    gibbs, drawn, vote = found.claims
    hashes = (prior.hash, posterior.hash, data.hash)
    carlo = found.monte_carlo
    assert carlo.seed == content_seed(*hashes, "Monte Carlo")
    assert carlo.chunk == CHUNKS[carlo.independent]
    counts = counted(carlo, len(data))
    assert counts.passes == passes_over(len(data)) == 800
    assert counts.observations >= OBSERVATIONS
    assert gibbs.delta == {"PAC-Bayes": 0.04, "Monte Carlo": 0.01}
    assert gibbs.risk == carlo.limit == counts.limit(0.01)
    assert gibbs.nats == posterior.kl(prior).total
    options = {"constant": CONSTANT, "charge": 1.5}
    assert gibbs.bound == pac_bayes_kl(gibbs.risk, gibbs.nats, 250, 0.04, **options)
    # n is that of the data, the one event of the drawn network has all of delta
    weights = drawn_weights(posterior, content_seed(*hashes, "one drawn network"))
    errors = mistakes(with_weights(model, weights), data)
    assert found.drawn_errors == errors
    assert drawn.nats == posterior.log_ratio(prior, weights)
    assert drawn.bound == single_draw_kl(drawn.risk, drawn.nats, 250, 0.05, **options)
    assert vote.bound == min(1.0, 2 * gibbs.bound)
    assert vote.delta == gibbs.delta


def test_the_risk_is_right(world):
    """The count agrees with the exact Gibbs error of a linear network."""
    from scipy.special import ndtr

    model, prior, posterior, data = world
    found = evaluate_claims(model, prior, posterior, data, 0.05, charge=0.0)
    margin = 2 * data.inputs[:, 0].double().abs()
    spread = (2 * 0.2 * (data.inputs.double().square().sum(1) + 1)).sqrt()
    exact = float(np.mean(ndtr(-(margin / spread).numpy())))
    counts = counted(found.monte_carlo, 250)
    assert counts.risk == pytest.approx(exact, abs=6 * math.sqrt(exact / counts.observations))
    assert exact <= found.claims[0].risk <= exact + 0.01


def test_the_noise_that_is_counted_has_the_covariance_that_is_charged(world):
    model, _, posterior, _ = world
    drawn = [
        flatten(posterior, posterior.sample(torch.Generator().manual_seed(s))) for s in range(4000)
    ]
    samples = torch.stack(drawn).numpy()
    mean = flatten(posterior, posterior.mean).numpy()
    statistic = covariance_statistic(samples, mean, dense_covariance(posterior).numpy())
    assert statistic < normal_limit(8 + 64)
    # ... and so do the outputs of the pass that is counted
    x = torch.tensor([[1.0, 2.0, -1.0]])
    noisy = NoisyNetwork(model, posterior, torch.randn(4, 3, generator=torch.Generator()))
    outputs = noisy(x.expand(20_000, 3), torch.Generator().manual_seed(1)).double().numpy()
    variance = 0.2 * (1 + 4 + 1 + 1)
    with torch.no_grad():
        centre = model(x).double().numpy()[0]
    assert covariance_statistic(outputs, centre, variance * np.eye(2)) < normal_limit(2 + 4)


def test_batching_does_not_change_a_count(world):
    from torch.utils.data import DataLoader, TensorDataset

    model, _, posterior, data = world
    noisy = NoisyNetwork(model, posterior, data.inputs[:4])
    pairs = TensorDataset(*data)
    counts = [
        count_errors(noisy, DataLoader(pairs, batch_size=size), passes=3, seed=5, chunk=100)
        for size in (7, 100, 250)
    ]
    counts.append(count_errors(noisy, data, passes=3, seed=5, chunk=100))
    for found in counts:
        assert np.array_equal(found.by_draw, counts[0].by_draw)


def test_looseness_sums_to_the_bound_and_no_part_is_negative(world):
    model, prior, posterior, data = world
    found = evaluate_claims(model, prior, posterior, data, 0.05, charge=1.5)
    union = Union(precision={}, largest={}, indices={}, tried=1, charges={}, charge=1.5)
    layers = posterior.kl(prior).layers
    parts = looseness(found.claims[0], found.monte_carlo, union, layers, 250)
    assert math.fsum(parts.values()) == pytest.approx(found.claims[0].bound, abs=1e-15)
    assert min(parts.values()) >= 0.0
    assert next(iter(parts)) == "empirical risk"
    assert any(name.startswith("KL of") for name in parts)


def test_batches_cover_the_data_once():
    data = datasets.Examples(torch.randn(25, 2), torch.zeros(25, dtype=torch.int64), classes=2)
    assert torch.equal(torch.cat([x for x, _ in batches_of(data, 10)]), data.inputs)


def test_ties_are_errors(world):
    model, _, _, data = world
    silent = with_weights(model, {name: 0 * t for name, t in model.named_parameters()})
    assert mistakes(silent, data) == len(data)


def test_the_drawn_network_is_deterministic_and_depends_on_every_hash(world):
    model, prior, posterior, data = world
    hashes = (prior.hash, posterior.hash, data.hash)
    first, again = (drawn_network(model, posterior, hashes) for _ in range(2))
    assert torch.equal(first.weight, again.weight)
    for place in range(3):
        other = list(hashes)
        other[place] = "x"
        assert not torch.equal(drawn_network(model, posterior, tuple(other)).weight, first.weight)


def test_the_randomised_network_has_the_certified_error_rate(world):
    model, prior, posterior, data = world
    found = evaluate_claims(model, prior, posterior, data, 0.05, charge=0.0)
    network = RandomisedNetwork(model, posterior, seed=1)
    values = [mistakes(network, data) / len(data) for _ in range(300)]
    risk = counted(found.monte_carlo, len(data)).risk
    assert np.mean(values) == pytest.approx(risk, abs=5 * np.std(values) / math.sqrt(300))
    assert len(set(values)) > 1
    fresh = RandomisedNetwork(model, posterior)  # no seed: other draws every time
    assert not torch.equal(fresh(data.inputs), fresh(data.inputs))


def test_small_data_are_passed_over_more_often():
    assert [passes_over(n) for n in (1, 100, 60_000, 200_000, 10**6)] == [2000, 2000, 4, 1, 1]
