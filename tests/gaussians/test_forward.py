import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from curvbound.errors import CurvboundError
from curvbound.gaussians import NoisyNetwork, diagonal, isotropic
from oracles.gaussians import (
    STRUCTURES,
    explicit_outputs,
    law_difference,
    normal_limit,
    random_gaussian,
)
from oracles.networks import BY_NAME
from oracles.odd_networks import Centres, Flips, Folds, Grows, Mixed, Reads, Signs

DRAWS = 3000
LEVEL = 1e-6


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def parameters(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach() for name, tensor in model.named_parameters()}


def seeded(build, seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build().eval()


def p_value(model: nn.Module, gaussian, inputs: Tensor, claimed=None) -> float:
    """Compares noisy outputs of one example with explicit weight draws."""
    noisy = NoisyNetwork(model, gaussian, inputs)
    assert noisy.independent == "example"
    copies = inputs[:1].expand(DRAWS, *inputs.shape[1:])
    found = noisy(copies, generator(1))
    expected = explicit_outputs(model, claimed or gaussian, inputs[:1], DRAWS, seed=2)[:, 0]
    return law_difference(found.numpy(), expected.numpy())


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("name", ["dense", "no_bias"])
def test_dense_networks_have_the_law_of_drawn_weights(name, structure):
    model, inputs, _ = BY_NAME[name].make(dtype=torch.float32)
    gaussian = random_gaussian(parameters(model), structure)
    noisy = NoisyNetwork(model, gaussian, inputs)
    assert set(noisy.method.values()) == {"local"}
    assert p_value(model, gaussian, inputs) > LEVEL


@pytest.mark.parametrize("structure", ["diagonal", "kronecker"])
@pytest.mark.parametrize(
    "name",
    ["conv", "conv1d", "conv_same", "residual", "layer_norm", "group_norm", "shared", "twice"],
)
def test_other_layers_have_the_law_of_drawn_weights(name, structure):
    model, inputs, _ = BY_NAME[name].make(dtype=torch.float32)
    gaussian = random_gaussian(parameters(model), structure, high=0.5)
    assert p_value(model, gaussian, inputs) > LEVEL


@pytest.mark.parametrize("structure", ["isotropic", "neuron_block", "kronecker"])
def test_a_mixed_network_has_the_law_of_drawn_weights(structure):
    model = seeded(Mixed)
    inputs = torch.randn(3, 2, 4, 4, generator=generator())
    gaussian = random_gaussian(parameters(model), structure, high=0.5)
    assert p_value(model, gaussian, inputs) > LEVEL


@pytest.mark.parametrize("name", ["dense", "conv", "shared", "twice", "residual"])
def test_the_comparison_notices_wrong_noise(name):
    model, inputs, _ = BY_NAME[name].make(dtype=torch.float32)
    gaussian = random_gaussian(parameters(model), "kronecker", high=0.5)
    larger = gaussian.with_variances({n: 1.5 * b.variance for n, b in gaussian.blocks.items()})
    assert p_value(model, larger, inputs, claimed=gaussian) < LEVEL


def test_positions_of_a_dense_layer_share_their_weights():
    # With independent noise at every position the variance of the mean would be a third of it.
    model = nn.Sequential(nn.Linear(2, 1, bias=False), nn.Flatten(), nn.AvgPool1d(3)).eval()
    inputs = torch.ones(2, 3, 2)
    inputs[1] = 2.0
    gaussian = isotropic({"0.weight": torch.zeros(1, 2)}, 0.25)
    noisy = NoisyNetwork(model, gaussian, inputs)
    assert noisy.method == {"0": "per-example"}
    outputs = noisy(torch.ones(20_000, 3, 2), generator()).double()
    assert float(outputs.var()) == pytest.approx(0.5, rel=normal_limit(1) * (2 / 20_000) ** 0.5)


@pytest.mark.parametrize(
    ("name", "methods"),
    [
        ("dense", {"local"}),
        ("conv", {"per-example", "local"}),
        ("residual", {"per-example", "local"}),
        ("twice", {"per-example", "local"}),
        ("attention", {"per-batch"}),
        ("transformer", {"per-batch"}),
        ("bag", {"per-batch"}),
        ("tied", {"per-batch"}),
        ("recurrent", {"per-batch"}),
        ("bare", {"per-batch"}),
    ],
)
def test_the_rule_is_chosen_and_recorded(name, methods):
    model, inputs, _ = BY_NAME[name].make(dtype=torch.float32)
    noisy = NoisyNetwork(model, isotropic(parameters(model), 0.1), inputs)
    assert set(noisy.method.values()) == methods
    assert noisy.independent == ("batch" if methods == {"per-batch"} else "example")
    outputs = noisy(inputs, generator())
    assert torch.isfinite(outputs).all()
    with torch.no_grad():
        assert outputs.shape == model(inputs).shape


@pytest.mark.parametrize("name", ["attention", "tied", "bare", "dense"])
def test_one_draw_per_batch_has_the_law_of_drawn_weights(name):
    model, inputs, _ = BY_NAME[name].make(dtype=torch.float32)
    gaussian = random_gaussian(parameters(model), "kronecker", high=0.5)
    noisy = NoisyNetwork(model, gaussian, inputs, independent="batch")
    assert noisy.independent == "batch"
    source = generator(3)
    found = torch.stack([noisy(inputs[:1], source)[0] for _ in range(300)])
    expected = torch.stack(
        [
            torch.func.functional_call(model, gaussian.sample(source), (inputs[:1],))[0].detach()
            for _ in range(300)
        ]
    )
    assert law_difference(found.numpy(), expected.numpy()) > LEVEL
    # All examples of a batch share the draw.
    twins = noisy(inputs[:1].expand(2, *inputs.shape[1:]), source)
    assert torch.allclose(twins[0], twins[1], atol=1e-5)


@pytest.mark.parametrize("name", ["dense", "conv", "residual", "layer_norm", "shared", "twice"])
def test_examples_of_a_batch_are_independent(name):
    model, inputs, _ = BY_NAME[name].make(dtype=torch.float32)
    gaussian = random_gaussian(parameters(model), "kronecker", high=0.5)
    noisy = NoisyNetwork(model, gaussian, inputs)
    pairs = inputs[:1].expand(2 * DRAWS, *inputs.shape[1:])
    outputs = noisy(pairs, generator(5)).numpy()
    ranks = outputs.argsort(0).argsort(0) / len(outputs) - 0.5  # bounded, so tails do no harm
    for first, second in (
        (slice(None, -1), slice(1, None)),
        (slice(None, DRAWS), slice(DRAWS, None)),
    ):
        a, b = ranks[first], ranks[second]
        correlation = a.T @ b / len(a) * 12
        assert np.abs(correlation).max() < normal_limit(2 * correlation.size) / len(a) ** 0.5


def test_a_frozen_bias_or_weight_is_constant():
    for frozen, variance in (("bias", 5 * 0.1), ("weight", 0.1)):
        model = seeded(lambda: nn.Linear(5, 3))
        getattr(model, frozen).requires_grad_(False)
        mean = {n: p.detach() for n, p in model.named_parameters() if p.requires_grad}
        inputs = torch.ones(2, 5)
        inputs[1] = 2.0
        noisy = NoisyNetwork(model, isotropic(mean, 0.1), inputs)
        outputs = noisy(inputs[:1].expand(20_000, 5), generator()).double()
        with torch.no_grad():
            centre = model(inputs[:1]).double()
        limit = normal_limit(6)
        assert (outputs.mean(0) - centre).abs().max() < limit * (variance / 20_000) ** 0.5
        assert (outputs.var(0) / variance - 1).abs().max() < limit * (2 / 20_000) ** 0.5


def test_frozen_parts_with_bases_and_positions():
    model = seeded(
        lambda: nn.Sequential(nn.Conv1d(2, 3, 2), nn.LayerNorm(3), nn.Flatten(), nn.Linear(9, 2))
    )
    model[0].weight.requires_grad_(False)
    model[1].weight.requires_grad_(False)
    model[3].bias.requires_grad_(False)
    mean = {n: p.detach() for n, p in model.named_parameters() if p.requires_grad}
    inputs = torch.randn(3, 2, 4, generator=generator())
    gaussian = random_gaussian(mean, "kronecker", high=0.5)
    assert p_value(model, gaussian, inputs) > LEVEL


def test_several_passes_over_a_batch_equal_single_calls():
    model, inputs, _ = BY_NAME["dense"].make(dtype=torch.float32)
    noisy = NoisyNetwork(model, random_gaussian(parameters(model), "kronecker"), inputs)
    together = list(noisy.passes(inputs, [generator(1), generator(2)]))
    apart = [noisy(inputs, generator(1)), noisy(inputs.clone(), generator(2))]
    assert all(torch.equal(a, b) for a, b in zip(together, apart, strict=True))
    assert not torch.equal(*together)


def test_changed_inputs_are_not_mistaken_for_known_ones():
    model = seeded(lambda: nn.Linear(3, 2))
    inputs = torch.randn(4, 3, generator=generator())
    noisy = NoisyNetwork(model, isotropic(parameters(model), 0.1), inputs)
    passes = noisy.passes(inputs, [generator(1), generator(1)])
    first = next(passes)
    inputs.mul_(2.0)
    assert not torch.allclose(first, next(passes))


@pytest.mark.parametrize("name", ["dense", "residual", "attention"])
def test_the_network_is_left_as_it_was(name):
    model, inputs, _ = BY_NAME[name].make(dtype=torch.float32)
    kept, before = copy.deepcopy(model.state_dict()), inputs.clone()
    state = torch.get_rng_state()
    with torch.no_grad():
        expected = model(inputs)
    noisy = NoisyNetwork(model, isotropic(parameters(model), 0.1), inputs)
    noisy(inputs, generator())
    assert all(torch.equal(kept[key], value) for key, value in model.state_dict().items())
    assert all("forward" not in vars(module) for module in model.modules())
    assert all(p.requires_grad and p.grad is None for p in model.parameters())
    with torch.no_grad():
        assert torch.equal(model(inputs), expected)
    assert torch.equal(inputs, before)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_mean_comes_from_the_distribution_not_from_the_network():
    model = seeded(lambda: nn.Linear(3, 2))
    mean = {name: torch.zeros_like(t) for name, t in parameters(model).items()}
    outputs = NoisyNetwork(model, isotropic(mean, 1e-12), torch.eye(3))(torch.eye(3), generator())
    assert outputs.abs().max() < 1e-4


@pytest.mark.parametrize(
    ("build", "shape"), [(Reads, (3, 3)), (Signs, (3, 3)), (Folds, (3, 4, 2)), (Flips, (3, 2))]
)
def test_weights_used_in_unusual_ways_get_one_draw_per_batch(build, shape):
    model = seeded(build)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.abs_()
    inputs = torch.rand(shape, generator=generator())
    gaussian = random_gaussian(parameters(model), "diagonal", high=0.3)
    noisy = NoisyNetwork(model, gaussian, inputs)
    assert noisy.independent == "batch"
    drawn = gaussian.sample(generator(4))
    with torch.no_grad():
        expected = torch.func.functional_call(model, drawn, (inputs,))
    assert torch.equal(noisy(inputs, generator(4)), expected)


def test_a_network_that_writes_into_its_input_sees_the_same_input_in_every_pass():
    model = seeded(lambda: nn.Sequential(nn.ReLU(inplace=True), nn.Linear(3, 2)))
    inputs = torch.randn(4, 3, generator=generator())
    before = inputs.clone()
    noisy = NoisyNetwork(model, isotropic(parameters(model), 0.1), inputs)
    list(noisy.passes(inputs, [generator(1), generator(2)]))
    assert torch.equal(inputs, before)


def test_networks_that_mix_examples_are_refused():
    inputs = torch.randn(4, 3, generator=generator())
    model = seeded(Centres)
    with pytest.raises(CurvboundError, match="other examples of its batch"):
        NoisyNetwork(model, isotropic(parameters(model), 0.1), inputs)
    norm = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    with pytest.raises(CurvboundError, match="training mode"):
        NoisyNetwork(norm, isotropic(parameters(norm), 0.1), inputs)


def test_a_distribution_of_another_network_is_refused():
    model = seeded(lambda: nn.Linear(3, 2))
    inputs = torch.randn(4, 3, generator=generator())
    with pytest.raises(CurvboundError, match="another architecture"):
        NoisyNetwork(model, isotropic({"weight": torch.zeros(2, 4)}, 1.0), inputs)
    with pytest.raises(CurvboundError, match="says nothing about the trainable parameter 'bias'"):
        NoisyNetwork(model, isotropic({"weight": torch.zeros(2, 3)}, 1.0), inputs)


def test_a_forward_pass_that_changes_its_mind_is_refused():
    model = seeded(Grows)
    noisy = NoisyNetwork(model, isotropic(parameters(model), 0.1), torch.randn(4, 3))
    with pytest.raises(CurvboundError, match="another way than in the example pass"):
        noisy(torch.randn(11, 3), generator())
    assert torch.isfinite(noisy(torch.randn(4, 3), generator())).all()


def test_float64_networks_keep_their_precision():
    model, inputs, _ = BY_NAME["residual"].make(dtype=torch.float64)
    mean = parameters(model)
    gaussian = diagonal(mean, {name: torch.full_like(t, 0.01) for name, t in mean.items()})
    assert NoisyNetwork(model, gaussian, inputs)(inputs, generator()).dtype == torch.float64


@pytest.mark.parametrize("name", ["conv", "layer_norm", "attention"])
def test_a_distribution_in_float64_serves_a_float32_network(name):
    model, inputs, _ = BY_NAME[name].make(dtype=torch.float32)
    gaussian = random_gaussian(parameters(model.double()), "kronecker")
    outputs = NoisyNetwork(model.float(), gaussian, inputs)(inputs, generator())
    assert outputs.dtype == torch.float32
    assert torch.isfinite(outputs).all()
