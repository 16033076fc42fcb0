import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from curvbound.errors import CurvboundError
from curvbound.gaussians import (
    Gaussian,
    diagonal,
    from_tensors,
    isotropic,
    kronecker,
    neuron_block,
)
from curvbound.gaussians.layout import layouts_of
from oracles.gaussians import (
    STRUCTURES,
    covariance_statistic,
    dense_covariance,
    dense_kl,
    exact_gaussian_kl,
    flat_mean,
    flatten,
    network_parameters,
    normal_limit,
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
    assert exact <= found <= exact * (1 + 1e-11) + 1e-300


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


@pytest.mark.parametrize("structure", STRUCTURES)
def test_sampled_noise_has_the_covariance_that_the_divergence_uses(structure):
    gaussian = make(structure)
    generator = torch.Generator().manual_seed(1)
    draws = np.stack([flatten(gaussian, gaussian.sample(generator)).numpy() for _ in range(1500)])
    covariance = dense_covariance(gaussian).numpy()
    statistic = covariance_statistic(draws, flat_mean(gaussian).numpy(), covariance)
    assert statistic < normal_limit(covariance.size + len(covariance))
    # The test can fail: a standard deviation in place of a variance is found out.
    wrong = covariance_statistic(draws, flat_mean(gaussian).numpy(), np.sqrt(np.abs(covariance)))
    assert wrong > normal_limit(covariance.size + len(covariance))


@pytest.mark.parametrize("structure", STRUCTURES)
def test_log_prob_equals_the_dense_density(structure):
    gaussian = make(structure)
    drawn = gaussian.sample(torch.Generator().manual_seed(3), dtype=torch.float64)
    dense = torch.distributions.MultivariateNormal(flat_mean(gaussian), dense_covariance(gaussian))
    expected = float(dense.log_prob(flatten(gaussian, drawn)))
    assert gaussian.log_prob(drawn) == pytest.approx(expected, rel=1e-10)


def test_log_ratio_is_the_rounded_up_difference_and_averages_to_the_divergence():
    posterior, prior = make("kronecker"), make("diagonal", seed=1)
    generator = torch.Generator().manual_seed(5)
    ratios = []
    for _ in range(800):
        drawn = posterior.sample(generator, dtype=torch.float64)
        ratios.append(posterior.log_ratio(prior, drawn))
    drawn = posterior.sample(generator, dtype=torch.float64)
    difference = posterior.log_prob(drawn) - prior.log_prob(drawn)
    assert difference <= posterior.log_ratio(prior, drawn) <= difference + 1e-7
    error = np.std(ratios) / math.sqrt(len(ratios))
    assert abs(np.mean(ratios) - posterior.kl(prior).total) < normal_limit(1) * error


def test_samples_have_the_asked_precision_and_depend_on_the_generator_alone():
    gaussian = make("kronecker")
    first = gaussian.sample(torch.Generator().manual_seed(1))
    state = torch.get_rng_state()
    torch.rand(3)
    again = gaussian.sample(torch.Generator().manual_seed(1))
    torch.set_rng_state(state)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert {tensor.dtype for tensor in first.values()} == {torch.float32}
    fine = gaussian.sample(torch.Generator().manual_seed(1), dtype=torch.float64)
    assert {tensor.dtype for tensor in fine.values()} == {torch.float64}
    assert {name: t.shape for name, t in first.items()} == {
        name: t.shape for name, t in gaussian.mean.items()
    }


@pytest.mark.parametrize("structure", STRUCTURES)
def test_storage_brings_back_the_same_distribution(structure, tmp_path):
    from safetensors.torch import load_file, save_file

    gaussian, prior = make(structure), isotropic(network_parameters(1), 0.2)
    tensors, description = gaussian.to_tensors()
    save_file(tensors, tmp_path / "posterior.safetensors")
    back = from_tensors(load_file(tmp_path / "posterior.safetensors"), description)
    assert back.hash == gaussian.hash
    assert back.kl(prior).total == gaussian.kl(prior).total


def test_hash_notices_every_change():
    gaussian = make("kronecker")
    hashes = {gaussian.hash, make("kronecker", seed=1).hash, make("diagonal").hash}
    tensors, description = gaussian.to_tensors()
    for key in tensors:
        changed = dict(tensors)
        changed[key] = tensors[key].clone()
        if key.startswith(("left", "right")):
            changed[key] = -changed[key]
        else:
            changed[key].view(-1)[0] *= 1.001
        hashes.add(from_tensors(changed, description).hash)
    assert len(hashes) == 3 + len(tensors)
    assert make("kronecker").hash == gaussian.hash


def test_rotations_of_equal_variances_are_dropped():
    mean = network_parameters()
    variance = {
        "fc": positive((1, 5), 0),
        **{n: torch.ones(1, 1) for n in ("conv", "norm", "scale")},
    }
    gaussian = kronecker(
        mean, variance, left={"fc": orthogonal(3, 0)}, right={"fc": orthogonal(5, 0)}
    )
    assert gaussian.blocks["fc"].left is None
    assert gaussian.blocks["fc"].right is not None


def test_divergence_accounts_for_bases_that_are_not_quite_orthogonal():
    mean = {"w": torch.zeros(4, 5, dtype=torch.float64)}
    stretch = torch.eye(5, dtype=torch.float64) * (1 - 2e-11)
    basis = orthogonal(5, 0) @ stretch
    variance = {"w": positive((4, 5), 0)}
    posterior, prior = kronecker(mean, variance, right={"w": basis}), isotropic(mean, 0.5)
    assert torch.equal(posterior.blocks["w"].right, basis)
    exact = dense_kl(
        flat_mean(posterior), dense_covariance(posterior), flat_mean(prior), dense_covariance(prior)
    )
    assert exact - 1e-13 <= posterior.kl(prior).total <= exact + 1e-8


def _set(name: str, value: object) -> dict:
    mean = network_parameters()
    return {key: torch.ones_like(t) if key != name else value for key, t in mean.items()}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda m: isotropic(m, 0.0), "positive and finite"),
        (lambda m: isotropic(m, -1.0), "positive and finite"),
        (lambda m: isotropic(m, float("nan")), "positive and finite"),
        (lambda m: isotropic(m, {"fc": 1.0}), "no variance for block 'conv'"),
        (lambda m: isotropic(m, {"other": 1.0}), "no block 'other'"),
        (lambda m: isotropic({}, 1.0), "names no parameter"),
        (lambda m: isotropic({"w": torch.tensor([float("inf")])}, 1.0), "NaN or infinite"),
        (lambda m: isotropic({"w": [1.0]}, 1.0), "must be a tensor"),
        (lambda m: diagonal(m, _set("fc.bias", torch.ones(4))), "another shape"),
        (lambda m: diagonal(m, _set("fc.bias", torch.zeros(3))), "positive and finite"),
        (lambda m: diagonal(m, {}), "missing"),
        (lambda m: kronecker(m, {n: torch.ones(7, 7) for n in layouts_of(m)}), "must have"),
        (lambda m: kronecker(m, {n: torch.ones(3) for n in layouts_of(m)}), "must have"),
        (lambda m: neuron_block(m, {"fc": torch.eye(4)}), "covariance of 'fc'"),
        (lambda m: neuron_block(m, {"fc": torch.eye(5)}), "no variance for block 'conv'"),
        (
            lambda m: neuron_block(m, {n: -torch.eye(b.columns) for n, b in layouts_of(m).items()}),
            "positive and finite",
        ),
    ],
)
def test_bad_input_gets_one_sentence(build, message):
    with pytest.raises(CurvboundError, match=message) as caught:
        build(network_parameters())
    assert "\n" not in str(caught.value)


def test_a_prior_of_another_architecture_is_refused():
    posterior = make("diagonal")
    smaller = {name: t for name, t in network_parameters().items() if name != "scale"}
    wider = {**network_parameters(), "fc.weight": torch.zeros(3, 6)}
    for mean in (smaller, wider):
        with pytest.raises(CurvboundError, match="another architecture"):
            posterior.kl(isotropic(mean, 1.0))
    with pytest.raises(CurvboundError, match="missing or has another shape"):
        posterior.log_prob(smaller)


@pytest.mark.parametrize(
    ("tensors", "description"),
    [
        ({}, {"kind": "unknown", "parameters": []}),
        ({}, {"kind": "gaussian"}),
        ({}, {"kind": "gaussian", "parameters": ["w"]}),
        ({"mean/w": torch.zeros(2)}, {"kind": "gaussian", "parameters": ["w"]}),
    ],
)
def test_broken_storage_is_refused(tensors, description):
    with pytest.raises(CurvboundError):
        from_tensors(tensors, description)


def test_a_stored_basis_that_shrinks_the_noise_is_refused():
    tensors, description = make("kronecker").to_tensors()
    tensors["right/fc"] = 0.9 * tensors["right/fc"]
    with pytest.raises(CurvboundError, match="not orthogonal"):
        from_tensors(tensors, description)


def test_other_variances_in_the_same_bases():
    gaussian = make("kronecker")
    doubled = {name: 2 * block.variance for name, block in gaussian.blocks.items() if name != "fc"}
    other = gaussian.with_variances(doubled)
    assert torch.equal(other.blocks["fc"].variance, gaussian.blocks["fc"].variance)
    bases = {
        side: {
            n: getattr(b, side) for n, b in gaussian.blocks.items() if getattr(b, side) is not None
        }
        for side in ("left", "right")
    }
    variances = {**{n: b.variance for n, b in gaussian.blocks.items()}, **doubled}
    assert other.hash == kronecker(gaussian.mean, variances, **bases).hash
    for bad in (torch.ones(1, 1), torch.zeros(3, 5)):
        with pytest.raises(CurvboundError, match="variance of 'fc'"):
            gaussian.with_variances({"fc": bad})
