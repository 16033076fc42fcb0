import math

import numpy as np
import pytest
import torch

from curvbound.errors import CurvboundError
from curvbound.gaussians import (
    Gaussian,
    from_tensors,
    isotropic,
)
from oracles.gaussians import (
    STRUCTURES,
    network_parameters,
    normal_limit,
    random_gaussian,
)


def make(structure: str, seed: int = 0) -> Gaussian:
    return random_gaussian(network_parameters(seed), structure, seed)


def test_log_ratio_is_the_rounded_up_difference_and_averages_to_the_divergence():
    posterior, prior = make("kronecker"), make("diagonal", seed=1)
    generator = torch.Generator().manual_seed(5)
    ratios = []
    for _ in range(300):
        drawn = posterior.sample(generator, dtype=torch.float64)
        ratios.append(posterior.log_ratio(prior, drawn))
    drawn = posterior.sample(generator, dtype=torch.float64)
    difference = posterior.log_prob(drawn) - prior.log_prob(drawn)
    assert difference <= posterior.log_ratio(prior, drawn) <= difference + 1e-7
    error = np.std(ratios) / math.sqrt(len(ratios))
    assert abs(np.mean(ratios) - posterior.kl(prior).total) < normal_limit(1) * error


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
        ({}, []),
        ({}, {"kind": ["gaussian"], "parameters": []}),
        (
            {"mean/w": torch.zeros(2), "variance/w": torch.ones(1, 1), "mean/v": torch.zeros(2)},
            {"kind": "gaussian", "parameters": ["w"]},
        ),
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
