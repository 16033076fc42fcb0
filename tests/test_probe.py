"""What one look at a network shows, and what it refuses."""

import pytest
import torch
from torch import nn

from curvbound.errors import CurvboundError
from curvbound.landscape import Landscape
from curvbound.probe import check_model, probe_forward, trainable_parameters
from oracles.networks import GRID


@pytest.mark.parametrize("case", GRID, ids=lambda case: case.name)
def test_piecewise_linear_networks_are_recognised(case):
    model, inputs, targets = case.make()
    land = Landscape(model, (inputs, targets))
    assert land.piecewise_linear == case.piecewise_linear, land.curved
    for name, calls in case.calls:
        assert land.layers[name].calls == calls


@pytest.mark.parametrize(
    "layer",
    [nn.GELU(), nn.Sigmoid(), nn.SiLU(), nn.Softplus(), nn.Softmax(1), nn.ELU(), nn.LayerNorm(4)],
)
def test_curved_layers_are_recognised(layer):
    model = nn.Sequential(nn.Linear(3, 4), layer, nn.Linear(4, 2))
    assert not Landscape(model, (torch.randn(5, 3), torch.arange(5) % 2)).piecewise_linear


def test_a_product_of_activations_is_curved():
    class Gate(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, x):
            return self.a(x) * self.b(x)

    land = Landscape(Gate(), (torch.randn(5, 3), torch.arange(5) % 2))
    assert land.curved == ("mul",)


def test_saved_bytes_do_not_depend_on_the_number_of_examples():
    model = nn.Sequential(nn.Linear(100, 50), nn.ReLU(), nn.Linear(50, 10))
    found = []
    for n in (4, 64):
        x = torch.randn(1000, 100)[:n]
        found.append(probe_forward(model, lambda x=x: model(x), n).saved_bytes)
    assert found[0] == found[1]
    assert 150 * 4 <= found[0] <= 400 * 4


def test_training_mode_names_the_module():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    with pytest.raises(CurvboundError, match=r"Dropout module '1' \(Dropout\) is in training mode"):
        check_model(model)
    with pytest.raises(CurvboundError, match=r"BatchNorm module '0' \(BatchNorm1d\)"):
        check_model(nn.Sequential(nn.BatchNorm1d(2)))
    with pytest.raises(CurvboundError, match="keeps no running statistics"):
        check_model(nn.Sequential(nn.BatchNorm1d(2, track_running_stats=False)).eval())
    with pytest.raises(CurvboundError, match="dropout inside module 'encoder'"):
        check_model(nn.ModuleDict({"encoder": nn.LSTM(2, 2, num_layers=2, dropout=0.1)}))
    check_model(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.0)))


def test_parameters_without_a_derivative():
    model = nn.Linear(2, 2)
    model.extra = nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    with pytest.raises(CurvboundError, match="Parameter 'extra' is complex"):
        trainable_parameters(model)
    model.extra = nn.Parameter(torch.zeros(2, dtype=torch.int32), requires_grad=False)
    with pytest.raises(CurvboundError, match="Parameter 'extra' has integer type"):
        trainable_parameters(model)
    with pytest.raises(CurvboundError, match="no trainable parameters"):
        trainable_parameters(nn.Linear(2, 2).requires_grad_(False))
    with pytest.raises(CurvboundError, match="'weight' is not initialised"):
        trainable_parameters(nn.LazyLinear(2))
