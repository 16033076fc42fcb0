import pytest
import torch
from torch import nn

from curvbound.errors import CurvboundError
from curvbound.training.checks import check_batch_norm, check_model, describe_network, probe

X, Y = torch.zeros(4, 3), torch.tensor([0, 1, 2, 1])


class WithExtraState(nn.Linear):
    def get_extra_state(self):
        return {"note": "not a tensor"}

    def set_extra_state(self, state):
        pass


def test_networks_that_cannot_be_trained_or_saved_are_refused():
    broken = nn.Linear(3, 3)
    nn.init.constant_(broken.bias, float("inf"))
    with pytest.raises(CurvboundError, match="bias holds NaN or infinity"):
        check_model(broken)
    with pytest.raises(CurvboundError, match="no parameters that require"):
        check_model(nn.Linear(3, 3).requires_grad_(False))
    with pytest.raises(CurvboundError, match="weight has no shape yet"):
        check_model(nn.LazyLinear(3))
    with pytest.raises(CurvboundError, match="cannot be saved"):
        check_model(WithExtraState(3, 3))


def test_batch_norm_refuses_a_last_batch_of_one():
    with pytest.raises(CurvboundError, match="choose another batch size"):
        check_batch_norm(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), 1)
    check_batch_norm(nn.Linear(3, 3), 1)
    check_batch_norm(nn.BatchNorm1d(3), 2)


def test_probe_refuses_what_does_not_fit():
    with pytest.raises(CurvboundError, match=r"cannot take test inputs of shape \(3,\)"):
        probe(nn.Linear(5, 3), (X, Y), "test")
    with pytest.raises(CurvboundError, match="build it with classes=3"):
        probe(nn.Linear(3, 2), (X, Y), "training")
    with pytest.raises(CurvboundError, match="no batches"):
        probe(nn.Linear(3, 3), [], "training")


def test_probe_refuses_outputs_that_are_not_finite():
    model = nn.Linear(3, 3)
    nn.init.constant_(model.weight, 3e38)
    with pytest.raises(CurvboundError, match="NaN or infinite outputs"):
        probe(model, (X + 10, Y), "training")


def test_probe_leaves_the_network_alone():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    probe(model, (X, Y), "training")
    assert model.training
    assert int(model[1].num_batches_tracked) == 0


def test_description_tells_networks_apart():
    base = describe_network(nn.Sequential(nn.Linear(3, 2), nn.ReLU()))
    assert base == describe_network(nn.Sequential(nn.Linear(3, 2), nn.ReLU()))
    assert base["tensors"] == {"0.weight": "2x3 float32", "0.bias": "2 float32"}
    assert base != describe_network(nn.Sequential(nn.Linear(3, 2), nn.Tanh()))
    frozen = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    frozen[0].bias.requires_grad_(False)
    assert describe_network(frozen)["tensors"]["0.bias"] == "2 float32 frozen"
