import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from curvbound.errors import CurvboundError
from curvbound.networks import build, initialisations, initialise

INITS = ["torch", "he", "gaussian-0.04", "gaussian-1"]


def flat(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@given(st.sampled_from(INITS), st.integers(0, 2**63 - 1))
def test_a_seed_gives_the_same_bits_again(init, seed):
    first, second = (flat(build("F-20-5", (9,), 3, init=init, seed=seed)) for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("name", ["F-20", "LeNet5-BN", "WRN-10-1", "Attention-small"])
def test_seeds_differ(init, name):
    shape = (1, 16, 16)
    one, other = (build(name, shape, 3, init=init, seed=s) for s in (1, 2))
    for (key, p), q in zip(one.named_parameters(), other.parameters(), strict=True):
        if p.dim() > 1:
            assert not torch.equal(p, q), key


@pytest.mark.parametrize("init", INITS)
def test_the_global_random_state_neither_changes_nor_matters(init):
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    one = build("LeNet5-BN", (1, 28, 28), 10, init=init)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(6)
    assert torch.equal(flat(one), flat(build("LeNet5-BN", (1, 28, 28), 10, init=init)))


@pytest.mark.parametrize("name", ["F-30-20-BN", "LeNet5", "CNN6", "ResNet-8", "PreResNet-11"])
def test_torch_is_what_torch_itself_draws(name):
    found = build(name, (3, 16, 16), 10, init="torch", seed=7)
    expected = copy.deepcopy(found)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        for layer in expected.modules():
            if isinstance(layer, nn.Linear | nn.Conv2d):
                layer.reset_parameters()
    assert torch.equal(flat(found), flat(expected))


def test_he_has_its_variance_and_no_bias():
    model = build("F-400^2", (500,), 10, init="he")
    for layer, fan_in in ((model.fc1, 500), (model.fc2, 400)):
        variance = layer.weight.double().var().item()
        spread = math.sqrt(2 / layer.weight.numel())
        assert variance * fan_in / 2 == pytest.approx(1, abs=5 * spread)
        assert abs(layer.weight.mean()) < 5 * math.sqrt(2 / fan_in / layer.weight.numel())
        assert not layer.bias.any()


@pytest.mark.parametrize("deviation", [0.04, 1.0, 2e-3])
def test_gaussian_is_truncated_at_two_deviations(deviation):
    model = build("F-400^2", (500,), 10, init=f"gaussian-{deviation}")
    for layer in (model.fc1, model.fc2):
        weight = layer.weight.detach().double() / deviation
        assert 1.999 < weight.abs().max() <= 2 * (1 + 1e-6)
        # Variance and fraction within one deviation of the normal law cut off at 2.
        mass = math.erf(math.sqrt(2))
        variance = 1 - 4 * math.exp(-2) / math.sqrt(2 * math.pi) / mass
        assert weight.var().item() == pytest.approx(variance, abs=0.01)
        inside = (weight.abs() < 1).double().mean().item()
        assert inside == pytest.approx(math.erf(math.sqrt(0.5)) / mass, abs=0.01)


def test_gaussian_biases_are_a_tenth_in_the_first_layer_and_zero_after():
    model = build("LeNet5", (1, 28, 28), 10, init="gaussian-0.04")
    biases = {key: p for key, p in model.named_parameters() if key.endswith("bias")}
    assert torch.equal(biases.pop("conv1.bias"), torch.full((6,), 0.1))
    assert not any(bias.any() for bias in biases.values())


@pytest.mark.parametrize("init", INITS)
def test_normalisation_layers_start_neutral(init):
    model = build("WRN-10-1", (3, 8, 8), 10, init=init)
    norms = [layer for layer in model.modules() if isinstance(layer, nn.BatchNorm2d)]
    assert len(norms) == 7
    for norm in norms:
        assert torch.equal(norm.weight, torch.ones_like(norm.weight))
        assert torch.equal(norm.running_var, torch.ones_like(norm.running_var))
        assert not norm.bias.any()
        assert not norm.running_mean.any()
        assert norm.num_batches_tracked == 0


def test_a_network_from_elsewhere_and_in_double_precision():
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)).double()
    initialise(model, "he", 3)
    single = build("F-3", (4,), 2, init="he", seed=3)
    assert torch.equal(flat(model).float(), flat(single))


def test_an_unknown_layer_is_refused_and_nothing_changes():
    model = nn.Sequential(nn.Linear(4, 3), nn.Embedding(3, 3))
    before = flat(model)
    with pytest.raises(CurvboundError, match="layer of type Embedding"):
        initialise(model)
    assert torch.equal(flat(model), before)


@pytest.mark.parametrize(
    "init",
    [
        "xavier",
        "",
        "gaussian",
        "gaussian-",
        "gaussian-0",
        "gaussian--1",
        "gaussian-nan",
        "gaussian-1e999",
        "Torch",
        "gaussian-0.04 ",
    ],
)
def test_unknown_names_are_refused(init):
    with pytest.raises(CurvboundError, match=r"There is no initialisation .*: choose torch, he,"):
        build("F-3", (4,), 2, init=init)


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_impossible_seeds_are_refused(seed):
    with pytest.raises(CurvboundError, match="is not a whole number from 0"):
        build("F-3", (4,), 2, seed=seed)


def test_every_listed_initialisation_works():
    for init in initialisations():
        assert flat(build("F-3", (4,), 2, init=init)).isfinite().all()
