import pytest
import torch
from torch import nn

from curvbound.errors import CurvboundError
from curvbound.networks import build


def count(name, classes):
    return sum(p.numel() for p in build(name, (3, 32, 32), classes).parameters())


@pytest.mark.parametrize(
    ("name", "classes", "expected"),
    [
        ("ResNet-20", 10, 269_722),
        ("PreResNet-164", 100, 1_726_388),
        ("WRN-28-10", 100, 36_546_980),
    ],
)
def test_parameter_counts(name, classes, expected):
    assert count(name, classes) == expected


@pytest.mark.parametrize(
    ("name", "weighted"),
    [("ResNet-20", 20), ("ResNet-8", 8), ("PreResNet-29", 29), ("WRN-10-2", 10), ("WRN-58-3", 58)],
)
def test_depth_counts_the_weighted_layers_outside_shortcuts(name, weighted):
    model = build(name, (3, 8, 8), 10)
    layers = [
        key
        for key, layer in model.named_modules()
        if isinstance(layer, nn.Conv2d | nn.Linear) and "shortcut" not in key
    ]
    # A WRN's depth 6n + 4 counts stem, 6n convolutions and 3 shortcuts, but no classifier.
    extra = 2 if name.startswith("WRN") else 0
    assert len(layers) + extra == weighted


def test_shortcuts_of_resnet_20_have_no_parameters():
    keys = [key for key, _ in build("ResNet-20", (3, 32, 32), 10).named_parameters()]
    assert not [key for key in keys if "shortcut" in key]


def test_shortcut_a_subsamples_and_pads_channels():
    shortcut = build("ResNet-8", (3, 8, 8), 10).stage2.block1.shortcut
    x = torch.rand(2, 16, 8, 8)
    y = shortcut(x)
    assert y.shape == (2, 32, 4, 4)
    assert torch.equal(y[:, 8:24], x[:, :, ::2, ::2])
    assert not y[:, :8].any()
    assert not y[:, 24:].any()


@pytest.mark.parametrize("name", ["ResNet-8", "PreResNet-11", "WRN-10-1"])
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (2, 7, 9)])
def test_forward_and_the_three_resolutions(name, shape):
    model = build(name, shape, 5)
    sides = []
    for stage in (model.stage1, model.stage2, model.stage3):
        stage.register_forward_hook(lambda _, i, output: sides.append(tuple(output.shape[2:])))
    assert model(torch.ones(2, *shape)).shape == (2, 5)
    height, width = shape[1:]
    halved = (-(-height // 2), -(-width // 2))
    assert sides == [(height, width), halved, (-(-halved[0] // 2), -(-halved[1] // 2))]


def test_biases_of_wrn_do_not_matter_while_training():
    model = build("WRN-10-1", (3, 8, 8), 10)
    images = torch.rand(8, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    before = model(images)
    with torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, nn.Conv2d):
                layer.bias += 0.5
    torch.testing.assert_close(model(images), before, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "name",
    [
        "ResNet-21",
        "ResNet-2",
        "ResNet-",
        "PreResNet-163",
        "WRN-28",
        "WRN-27-2",
        "WRN-28-0",
        "WRN-4-2",
        "ResNet-20-10",
        "ResNet-9998",
        "WRN-28-1000",
    ],
)
def test_impossible_depths_are_refused(name):
    with pytest.raises(CurvboundError, match=r"cannot be built: write .* a depth d of"):
        build(name, (3, 32, 32), 10)


def test_vectors_are_refused():
    with pytest.raises(CurvboundError, match="takes images"):
        build("WRN-10-1", (784,), 10)
