import pytest
import torch
from torch import nn

from curvbound.errors import CurvboundError
from curvbound.networks import build


def test_parameter_count_of_004():
    model = build("All-CNN-C", (3, 32, 32), 100)
    assert sum(p.numel() for p in model.parameters()) == 1_387_108


def test_only_convolutions_have_parameters():
    model = build("All-CNN-C", (3, 32, 32), 10)
    assert all(isinstance(layer, nn.Conv2d) for layer in model if list(layer.parameters()))


def test_the_class_maps_are_six_by_six_on_cifar():
    model = build("All-CNN-C", (3, 32, 32), 10)
    shapes = []
    model.avgpool.register_forward_pre_hook(lambda _, inputs: shapes.append(inputs[0].shape))
    model(torch.ones(1, 3, 32, 32))
    assert shapes == [(1, 10, 6, 6)]


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 9, 12)])
def test_forward(shape):
    assert build("All-CNN-C", shape, 4)(torch.ones(2, *shape)).shape == (2, 4)


def test_small_images_are_refused():
    with pytest.raises(CurvboundError, match="at least 9x9 pixels, not 8x8"):
        build("All-CNN-C", (1, 8, 8), 10)
