import pytest
import torch
from torch import nn

from curvbound.errors import CurvboundError
from curvbound.networks import build


def test_vgg11_has_the_head_of_the_paper():
    model = build("VGG11", (3, 32, 32), 10)
    assert (model.fc1.in_features, model.fc1.out_features) == (512, 10)
    assert sum(p.numel() for p in model.parameters()) == 9_225_610
    filters = [layer.out_channels for layer in model if isinstance(layer, nn.Conv2d)]
    assert filters == [64, 128, 256, 256, 512, 512, 512, 512]


def test_cnn6_has_its_known_size():
    model = build("CNN6", (3, 32, 32), 10)
    assert sum(p.numel() for p in model.parameters()) == 815_434


def test_cnn6_pools_after_the_second_and_the_fourth_convolution():
    names = [name for name, _ in build("CNN6", (3, 32, 32), 10).named_children()]
    assert names.index("maxpool1") == names.index("relu2") + 1
    assert names.index("maxpool2") == names.index("relu4") + 1
    assert names[-3:] == ["avgpool", "flatten", "fc1"]
    assert "maxpool3" not in names


@pytest.mark.parametrize(
    ("name", "shape"),
    [("CNN6", (1, 28, 28)), ("CNN6", (3, 4, 5)), ("VGG11", (1, 32, 32)), ("VGG11", (3, 32, 65))],
)
def test_forward(name, shape):
    assert build(name, shape, 3)(torch.ones(2, *shape)).shape == (2, 3)


@pytest.mark.parametrize(("name", "shape"), [("CNN6", (1, 3, 9)), ("VGG11", (1, 28, 28))])
def test_small_images_are_refused(name, shape):
    with pytest.raises(CurvboundError, match=f"{name} needs images of at least"):
        build(name, shape, 10)
