"""The rules, draw by draw: the same noise applied to explicit weights gives the same outputs.

That their law is right for whole networks is shown in test_forward.py.
"""

import pytest
import torch
from torch import nn

from curvbound.errors import CurvboundError
from curvbound.gaussians.draws import Draws, Kept
from curvbound.gaussians.noise import LocalLinear, NoisyNorm, PerExample, make_noisy
from oracles.gaussians import STRUCTURES, random_gaussian

EXAMPLES = 5


def seeded(build) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return build().double().eval()


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(1)


def compare(module: nn.Module, x: torch.Tensor, structure: str, **use) -> None:
    mean = {name: tensor.detach() for name, tensor in module.named_parameters()}
    noise = random_gaussian(mean, structure).blocks["(model)"]
    layer = make_noisy(module, mean, noise, **use)
    found = layer(x, Draws(generator(), len(x), Kept(None)))
    weights = noise.rotate(noise.standard_noise(len(x), generator(), torch.float64, x.device))
    drawn = noise.layout.split(weights)
    with torch.no_grad():
        for i in range(len(x)):
            own = {name: mean[name] + drawn[name][i] for name in mean}
            expected = torch.func.functional_call(module, own, (x[i : i + 1],))
            assert torch.allclose(found[i : i + 1], expected, atol=1e-12)


CONVOLUTIONS = {
    "plain": (lambda: nn.Conv2d(2, 3, 3), (2, 6, 6)),
    "one position": (lambda: nn.Conv2d(2, 3, 3), (2, 3, 3)),
    "stride, padding, dilation": (
        lambda: nn.Conv2d(2, 3, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2)),
        (2, 7, 5),
    ),
    "groups": (lambda: nn.Conv2d(4, 6, 3, groups=2), (4, 6, 6)),
    "groups, one position": (lambda: nn.Conv2d(4, 6, 3, groups=2), (4, 3, 3)),
    "depthwise": (lambda: nn.Conv2d(3, 3, 2, groups=3, bias=False), (3, 2, 3)),
    "same": (lambda: nn.Conv2d(1, 2, (2, 3), padding="same"), (1, 4, 4)),
    "valid": (lambda: nn.Conv2d(1, 2, 3, padding="valid"), (1, 4, 4)),
    "circular": (lambda: nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular"), (1, 4, 4)),
    "reflect": (lambda: nn.Conv1d(2, 2, 3, padding=2, padding_mode="reflect"), (2, 5)),
    "line": (lambda: nn.Conv1d(2, 3, 3, stride=2), (2, 9)),
    "volume": (lambda: nn.Conv3d(1, 2, 2, padding=(1, 0, 1)), (1, 3, 3, 2)),
}


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("structure", ["isotropic", "diagonal", "neuron_block", "kronecker"])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions_with_a_kernel_per_example(case, structure):
    build, shape = CONVOLUTIONS[case]
    x = torch.randn(EXAMPLES, *shape, generator=generator(), dtype=torch.float64)
    compare(seeded(build), x, structure, calls=1, positions=1)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("shape", [(1, 4), (7, 4), (2, 3, 4), (90, 4)])
@pytest.mark.parametrize("bias", [True, False])
def test_dense_layers_over_positions(shape, structure, bias):
    x = torch.randn(EXAMPLES, *shape, generator=generator(), dtype=torch.float64)
    compare(seeded(lambda: nn.Linear(4, 3, bias=bias)), x, structure, calls=2, positions=7)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (lambda: nn.BatchNorm1d(4), (4,)),
        (lambda: nn.BatchNorm2d(4), (4, 2, 3)),
        (lambda: nn.BatchNorm3d(4), (4, 2, 1, 2)),
        (lambda: nn.LayerNorm(4), (3, 4)),
        (lambda: nn.LayerNorm((3, 4)), (2, 3, 4)),
        (lambda: nn.LayerNorm(4, bias=False), (4,)),
        (lambda: nn.GroupNorm(2, 4), (4, 3)),
        (lambda: nn.GroupNorm(2, 4), (4,)),
    ],
)
def test_normalisation_with_scale_and_shift_per_example(build, shape, structure):
    module = seeded(build)
    for buffer in ("running_mean", "running_var"):
        if hasattr(module, buffer):
            getattr(module, buffer).copy_(torch.rand(4, generator=generator()) + 0.5)
    x = torch.randn(EXAMPLES, *shape, generator=generator(), dtype=torch.float64)
    compare(module, x, structure, calls=1, positions=1)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("bias", [True, False])
def test_local_moments_are_those_of_drawn_weights(structure, bias):
    module = seeded(lambda: nn.Linear(4, 3, bias=bias))
    mean = {name: tensor.detach() for name, tensor in module.named_parameters()}
    noise = random_gaussian(mean, structure).blocks["(model)"]
    layer = make_noisy(module, mean, noise, calls=1, positions=1)
    assert isinstance(layer, LocalLinear)
    x = torch.randn(EXAMPLES, 4, generator=generator(), dtype=torch.float64)
    centre, deviation = layer._moments(x)
    with torch.no_grad():
        assert torch.allclose(centre, module(x))
    ones = torch.ones(EXAMPLES, 1, dtype=torch.float64)
    extended = torch.cat([x, ones], 1) if bias else x
    left = torch.eye(3, dtype=torch.float64) if noise.left is None else noise.left
    width = extended.shape[1]
    right = torch.eye(width, dtype=torch.float64) if noise.right is None else noise.right
    basis = torch.kron(left, right)
    covariance = basis @ torch.diag(noise.variance.expand(3, width).reshape(-1)) @ basis.T
    for i in range(EXAMPLES):
        spread = torch.kron(torch.eye(3, dtype=torch.float64), extended[i][None])
        expected = spread @ covariance @ spread.T
        found = left @ torch.diag(deviation[i].expand(3).square()) @ left.T
        assert torch.allclose(found, expected)


def test_the_rule_follows_the_use():
    linear, norm = seeded(lambda: nn.Linear(2, 2)), seeded(lambda: nn.LayerNorm(2))
    for module, calls, positions, rule in (
        (linear, 1, 1, LocalLinear),
        (linear, 2, 1, PerExample),
        (linear, 1, 3, PerExample),
        (norm, 1, 1, NoisyNorm),
    ):
        mean = {name: tensor.detach() for name, tensor in module.named_parameters()}
        noise = random_gaussian(mean, "diagonal").blocks["(model)"]
        assert type(make_noisy(module, mean, noise, calls=calls, positions=positions)) is rule


def test_a_local_layer_refuses_positions_and_second_calls():
    module = seeded(lambda: nn.Linear(2, 2))
    mean = {name: tensor.detach() for name, tensor in module.named_parameters()}
    noise = random_gaussian(mean, "diagonal").blocks["(model)"]
    layer = make_noisy(module, mean, noise, calls=1, positions=1)
    x = torch.zeros(3, 2, dtype=torch.float64)
    with pytest.raises(CurvboundError, match="several positions"):
        layer(x[:, None].expand(3, 2, 2), Draws(generator(), 3, Kept(None)))
    draws = Draws(generator(), 3, Kept(None))
    layer(x, draws)
    with pytest.raises(CurvboundError, match="another way"):
        layer(x, draws)
    with pytest.raises(CurvboundError, match="another way"):
        layer(x, Draws(generator(), 4, Kept(None)))
