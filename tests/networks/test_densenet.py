import pytest
import torch
from torch import nn

from curvbound.errors import CurvboundError
from curvbound.networks import build


def test_size_and_depth():
    model = build("DenseNet-BC-k12", (3, 32, 32), 10)
    assert sum(p.numel() for p in model.parameters()) == 769_162
    assert sum(isinstance(layer, nn.Conv2d | nn.Linear) for layer in model.modules()) == 100


def test_each_layer_keeps_its_input_and_adds_twelve_channels():
    layer = build("DenseNet-BC-k12", (3, 4, 4), 10).block1.layer1
    x = torch.rand(2, 24, 4, 4)
    y = layer(x)
    assert y.shape == (2, 36, 4, 4)
    assert torch.equal(y[:, :24], x)


@pytest.mark.parametrize("shape", [(1, 4, 4), (3, 9, 6)])
def test_forward(shape):
    assert build("DenseNet-BC-k12", shape, 3)(torch.ones(2, *shape)).shape == (2, 3)


def test_small_images_are_refused():
    with pytest.raises(CurvboundError, match="at least 4x4 pixels"):
        build("DenseNet-BC-k12", (1, 3, 8), 10)
