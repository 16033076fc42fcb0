import numpy as np
import pytest
import torch

from curvbound.errors import CurvboundError
from curvbound.gaussians import (
    Gaussian,
    diagonal,
    isotropic,
    kronecker,
    neuron_block,
)
from curvbound.gaussians.layout import layouts_of
from oracles.gaussians import (
    STRUCTURES,
    covariance_statistic,
    dense_covariance,
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
def test_sampled_noise_has_the_covariance_that_the_divergence_uses(structure):
    gaussian = make(structure)
    generator = torch.Generator().manual_seed(1)
    draws = np.stack([flatten(gaussian, gaussian.sample(generator)).numpy() for _ in range(1000)])
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
