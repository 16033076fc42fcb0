"""Networks made ready: BatchNorm as an affine map, constants that must not have changed."""

import pytest
import torch
from torch import nn

from curvbound import CurvboundError, networks
from curvbound.certificates.preparation import prepare


def with_statistics(model, shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            size = module.num_features
            module.running_mean.copy_(torch.randn(size, generator=generator))
            module.running_var.copy_(torch.rand(size, generator=generator) + 0.1)
            if module.affine:
                with torch.no_grad():
                    module.weight.copy_(torch.randn(size, generator=generator))
                    module.bias.copy_(torch.randn(size, generator=generator))
    return model.eval(), torch.randn(7, *shape, generator=generator)


@pytest.mark.parametrize(
    ("name", "shape"), [("F-8-BN", (6,)), ("LeNet5-BN", (1, 28, 28)), ("ResNet-8", (3, 8, 8))]
)
def test_batch_norm_becomes_the_same_map_with_all_of_it_in_parameters(name, shape):
    model, x = with_statistics(networks.build(name, shape, 3), shape)
    model = model.double()
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    prepared = prepare(model, model, "the network")
    assert prepared.converted
    x = x.double()
    with torch.no_grad():
        torch.testing.assert_close(prepared.model(x), model(x), rtol=1e-12, atol=1e-12)
    for layer in prepared.converted:
        module = prepared.model.get_submodule(layer)
        assert module.running_mean.eq(0).all()
        assert module.running_var.eq(1).all()
        assert module.eps == 0.0
        assert {f"{layer}.weight", f"{layer}.bias"} <= set(prepared.trained)
    for key, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[key])


def test_the_prior_mean_of_a_batch_norm_is_that_of_the_start():
    start = networks.build("F-8-BN", (6,), 3).eval()
    model, x = with_statistics(networks.build("F-8-BN", (6,), 3), (6,))
    prepared = prepare(model, start, "the initialisation")
    with torch.no_grad():
        ours = torch.func.functional_call(prepared.model, prepared.start, (x,))
        torch.testing.assert_close(ours, start(x), rtol=1e-5, atol=1e-6)


def test_batch_norm_without_statistics_is_refused():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, track_running_stats=False))
    with pytest.raises(CurvboundError, match="'1' has no running statistics"):
        prepare(model, model, "the initialisation")


def test_a_lone_batch_norm_is_refused():
    with pytest.raises(CurvboundError, match="single BatchNorm"):
        prepare(nn.BatchNorm1d(3), nn.BatchNorm1d(3), "the initialisation")


class Buffered(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.register_buffer("centre", torch.zeros(3))

    def forward(self, x):
        return self.fc(x - self.centre)


def test_a_changed_buffer_is_refused():
    model, start = Buffered(), Buffered()
    prepare(model, start, "the initialisation")
    model.centre += 1
    with pytest.raises(CurvboundError, match="buffer 'centre' differs"):
        prepare(model, start, "the initialisation")


def test_a_changed_frozen_parameter_is_refused():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    model[0].requires_grad_(False)
    same = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    prepared = prepare(model, same, "the initialisation")
    assert set(prepared.trained) == {"1.weight", "1.bias"}
    same["0.bias"] += 1
    with pytest.raises(CurvboundError, match=r"frozen parameter '0.bias' differs"):
        prepare(model, same, "the initialisation")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("bias"), "another architecture: 'bias'"),
        (lambda s: s.update(extra=torch.zeros(1)), "another architecture: 'extra'"),
        (lambda s: s.update(weight=torch.zeros(3, 3)), "another architecture: 'weight'"),
        (lambda s: s["bias"].fill_(float("nan")), "NaN or infinite values in 'bias'"),
        (lambda s: s["bias"].fill_(float("inf")), "NaN or infinite values in 'bias'"),
        (lambda s: s.update(bias=[0.0, 0.0]), "'bias' is not a tensor"),
    ],
)
def test_another_start_is_refused(change, message):
    model = nn.Linear(3, 2)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    change(state)
    with pytest.raises(CurvboundError, match=message):
        prepare(model, state, "the initialisation")


def test_what_is_no_network_is_refused():
    with pytest.raises(CurvboundError, match=r"torch\.nn\.Module, not dict"):
        prepare({}, {}, "the prior")
    with pytest.raises(CurvboundError, match="state dict or a network, not int"):
        prepare(nn.Linear(2, 2), 3, "the prior")
    frozen = nn.Linear(2, 2).requires_grad_(False)
    with pytest.raises(CurvboundError, match="no trainable parameter"):
        prepare(frozen, frozen, "the prior")
