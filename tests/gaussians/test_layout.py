import pytest
import torch
from torch import nn

from curvbound.errors import CurvboundError
from curvbound.gaussians.layout import checked_parameters, layouts_of
from oracles.gaussians import network_parameters


def test_blocks_join_weight_and_bias_and_split_back():
    parameters = network_parameters()
    layouts = layouts_of(parameters)
    assert {name: (block.rows, block.columns) for name, block in layouts.items()} == {
        "fc": (3, 5),
        "conv": (2, 2),
        "norm": (2, 2),
        "scale": (1, 1),
    }
    fc = layouts["fc"].join(parameters)
    assert torch.equal(fc[:, -1], parameters["fc.bias"])
    for layout in layouts.values():
        matrix = layout.join(parameters)
        for name, part in layout.split(matrix).items():
            assert torch.equal(part, parameters[name])
        stacked = layout.split(torch.stack([matrix, 2 * matrix]))
        for name, part in stacked.items():
            assert torch.equal(part[1], 2 * parameters[name])


def test_every_parameter_of_real_modules_is_placed_once():
    model = nn.ModuleDict(
        {
            "attention": nn.MultiheadAttention(4, 2),
            "lstm": nn.LSTM(2, 3),
            "transposed": nn.ConvTranspose2d(2, 3, 2),
            "norm": nn.LayerNorm((2, 3)),
            "embedding": nn.Embedding(5, 2),
        }
    )
    parameters = dict(model.named_parameters())
    placed = [name for layout in layouts_of(parameters).values() for name in layout.parameters]
    assert sorted(placed) == sorted(parameters)
    assert layouts_of(parameters)["norm"].columns == 6


def test_parameters_of_a_bare_module_get_a_name():
    assert list(layouts_of(dict(nn.Linear(2, 2).named_parameters()))) == ["(model)"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "names no parameter"),
        ({"w": torch.tensor([1.0, float("nan")])}, "NaN or infinite"),
        ({"w": torch.zeros(0, 2)}, "non-empty"),
        ({"w": torch.zeros(2, dtype=torch.int64)}, "floating-point"),
        ({"w": torch.zeros(2, dtype=torch.complex64)}, "floating-point"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(CurvboundError, match=message):
        checked_parameters(parameters, "mean")


def test_copies_do_not_follow_the_network():
    layer = nn.Linear(2, 2)
    kept = checked_parameters(dict(layer.named_parameters()), "mean")
    with torch.no_grad():
        layer.weight.add_(1.0)
    assert not torch.equal(kept["weight"], layer.weight)


def test_a_lone_bias_takes_the_name_of_its_layer():
    assert list(layouts_of({"fc.bias": torch.zeros(3)})) == ["fc"]
    mismatched = {"up.weight": torch.zeros(2, 3, 2, 2), "up.bias": torch.zeros(3)}
    assert list(layouts_of(mismatched)) == ["up", "up.bias"]
