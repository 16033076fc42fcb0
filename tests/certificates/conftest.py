"""Small networks and their certificates, made once for all tests of this folder."""

import pytest
import torch
from torch import nn

import curvbound as cb
from curvbound import datasets, networks
from oracles.training import fit


def weights_of(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


@pytest.fixture(scope="session")
def digits():
    return datasets.load("digits").train.take(range(400))


@pytest.fixture(scope="session")
def trained(digits):
    """A trained network and the state it started from."""
    model = networks.build("F-12", digits.shape, 10, seed=3)
    start = weights_of(model)
    return fit(model, digits), start


@pytest.fixture(scope="session")
def by_init(digits, trained):
    model, start = trained
    return cb.certify(model, digits, init=start, budget="quick")


@pytest.fixture(scope="session")
def by_split(digits):
    model = networks.build("F-12", digits.shape, 10, seed=3)
    return cb.certify(model, digits, train=fit, budget="quick")


@pytest.fixture(scope="session")
def by_heldout(digits, trained):
    held = datasets.load("digits").test.take(range(150))
    return cb.certify(trained[0], digits, heldout=held)
