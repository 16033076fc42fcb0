import pytest
import torch
from torch import nn

from curvbound.errors import CurvboundError
from curvbound.networks import build


def count(name, shape, classes=10):
    return sum(p.numel() for p in build(name, shape, classes).parameters())


def test_shapes_of_table_4():
    model = build("LeNet5", (3, 32, 32), 10)
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters() if "weight" in name}
    assert shapes == {
        "conv1.weight": (6, 3, 5, 5),
        "conv2.weight": (16, 6, 5, 5),
        "fc1.weight": (120, 400),
        "fc2.weight": (84, 120),
        "fc3.weight": (10, 84),
    }


@pytest.mark.parametrize("width", [80, 100, 150])
def test_fc1_variants(width):
    model = build(f"LeNet5-fc1-{width}", (3, 32, 32), 10)
    assert model.fc1.out_features == model.fc2.in_features == width


def test_conv2_variant():
    model = build("LeNet5-conv2-25", (3, 32, 32), 10)
    assert model.conv2.out_channels == 25
    assert model.fc1.in_features == 25 * 25


def order(name):
    return [type(layer).__name__ for layer in build(name, (3, 32, 32), 10)]


def test_normalisation_before_the_pool_is_table_5():
    stage = ["Conv2d", "ReLU", "BatchNorm2d", "MaxPool2d"]
    dense = ["Linear", "ReLU", "BatchNorm1d"]
    assert order("LeNet5-BN") == [*stage * 2, "Flatten", *dense * 2, "Linear"]


def test_normalisation_after_the_pool():
    stage = ["Conv2d", "ReLU", "MaxPool2d", "BatchNorm2d"]
    dense = ["Linear", "ReLU", "BatchNorm1d"]
    assert order("LeNet5-pool-BN") == [*stage * 2, "Flatten", *dense * 2, "Linear"]


def test_only_normalisation_after_the_pool_centres_the_next_layer():
    images = torch.rand(64, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    means = {}
    for name in ("LeNet5-BN", "LeNet5-pool-BN"):
        model = build(name, (3, 32, 32), 10)
        model.conv2.register_forward_pre_hook(
            lambda _, inputs, name=name: means.update({name: inputs[0].mean().item()})
        )
        model(images)
    assert abs(means["LeNet5-pool-BN"]) < 1e-5
    assert means["LeNet5-BN"] > 0.1


@pytest.mark.parametrize("name", ["LeNet5-BN", "LeNet5-pool-BN", "LeNet5-fc1-120-conv2-16-BN"])
def test_normalisation_has_no_parameters(name):
    assert count(name, (3, 32, 32)) == count("LeNet5", (3, 32, 32)) == 62_006
    norms = [
        m for m in build(name, (3, 32, 32), 10) if isinstance(m, nn.modules.batchnorm._NormBase)
    ]
    assert len(norms) == 4
    assert not any(norm.affine for norm in norms)


@pytest.mark.parametrize("name", ["LeNet5", "LeNet5-BN", "LeNet5-pool-BN", "MNIST-CNN"])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (2, 16, 16), (1, 20, 33)])
def test_forward(name, shape):
    assert build(name, shape, 7)(torch.ones(3, *shape)).shape == (3, 7)


def test_mnist_example_network_has_its_known_size():
    assert count("MNIST-CNN", (1, 28, 28)) == 21_840


@pytest.mark.parametrize("name", ["LeNet5", "MNIST-CNN"])
def test_small_images_are_refused(name):
    with pytest.raises(CurvboundError, match=f"{name} needs images of at least 16x16"):
        build(name, (1, 8, 8), 10)


@pytest.mark.parametrize(
    "name", ["LeNet5-fc1-0", "LeNet5-fc2-80", "LeNet5-fc1-", "LeNet5-BN-BN", "LeNet5-conv2-3-fc1-2"]
)
def test_other_variants_are_refused(name):
    with pytest.raises(CurvboundError, match="is not a LeNet5: write"):
        build(name, (3, 32, 32), 10)
