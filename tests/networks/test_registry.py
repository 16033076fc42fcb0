import copy
import json
import pickle
from collections import Counter

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from curvbound.errors import CurvboundError
from curvbound.networks import build, initialise, names, specification

# The smallest images that a network takes keep the large ones quick.
SHAPES = {"VGG11": (3, 32, 32), "Toy": (2,), "All-CNN-C": (3, 12, 12)}
SHAPES |= {name: (3, 16, 16) for name in names() if name.startswith(("LeNet5", "MNIST-CNN"))}


def problem(name):
    shape = SHAPES.get(name, (3, 8, 8))
    classes = 2 if name == "Toy" else 4
    generator = torch.Generator().manual_seed(0)
    return shape, classes, torch.rand(4, *shape, generator=generator)


@pytest.mark.parametrize("name", names())
def test_every_listed_network(name):
    shape, classes, inputs = problem(name)
    state = torch.random.get_rng_state()
    model = build(name, shape, classes)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert model.training
    tensors = [*model.parameters(), *model.buffers()]
    assert {t.device.type for t in tensors} == {"cpu"}
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert all(t.isfinite().all() for t in tensors)

    calls = Counter()
    leaves = {key: layer for key, layer in model.named_modules() if not list(layer.children())}
    for key, layer in leaves.items():
        layer.register_forward_hook(lambda *_, key=key: calls.update([key]))
    logits = model(inputs)
    assert logits.shape == (4, classes)
    assert logits.isfinite().all()
    # Every layer runs once, so that hooks see each of them with one input and one output.
    assert calls == Counter(leaves.keys())
    assert not any(getattr(layer, "inplace", False) for layer in leaves.values())


@pytest.mark.parametrize("name", names())
def test_the_gradient_reaches_every_parameter(name):
    shape, classes, inputs = problem(name)
    # In eval mode: batch statistics would cancel the biases before a batch normalisation.
    model = build(name, shape, classes, init="he").eval()
    cross_entropy(model(inputs), torch.arange(4) % classes).backward()
    assert [key for key, p in model.named_parameters() if not p.grad.any()] == []


@pytest.mark.parametrize("name", names())
def test_descriptions_are_one_line(name):
    text = names()[name]
    assert text
    assert "\n" not in text
    assert len(text) < 90


def test_the_listing_has_the_networks_of_the_papers():
    assert {"F-300^2", "F-200^2-100", "F-200^2-BN", "MLP-9960", "LeNet5", "VGG11"} <= set(names())
    assert {"CNN6", "WRN-28-2", "WRN-58-3", "DenseNet-BC-k12", "Toy"} <= set(names())


def test_a_model_knows_how_it_was_built():
    model = build("LeNet5", (1, 28, 28), 10, init="he", seed=4)
    expected = {"name": "LeNet5", "input_shape": [1, 28, 28], "classes": 10}
    expected |= {"init": "he", "seed": 4}
    assert specification(model) == expected
    assert specification(copy.deepcopy(model)) == expected
    assert specification(pickle.loads(pickle.dumps(model))) == expected
    with torch.no_grad():
        initialise(model, "torch", 9)  # stands for training: the record is about the start
    again = build(**json.loads(json.dumps(specification(model))))
    start = build("LeNet5", (1, 28, 28), 10, init="he", seed=4)
    assert all(
        torch.equal(p, q) for p, q in zip(again.parameters(), start.parameters(), strict=True)
    )


def test_a_network_from_elsewhere_has_no_specification():
    assert specification(nn.Linear(2, 2)) is None


def test_global_settings_play_no_part():
    expected = build("F-3", (4,), 2)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            found = build("F-3", (4,), 2)
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(
        torch.equal(p, q) for p, q in zip(found.parameters(), expected.parameters(), strict=True)
    )


def test_numpy_integers_will_do():
    model = build("F-3", np.array([2, 2]), np.int64(3), seed=np.int64(1))
    assert specification(model)["input_shape"] == [2, 2]
    json.dumps(specification(model))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("lenet5", "LeNet5"),
        ("LeNet-5", "LeNet5"),
        ("Resnet20", "ResNet-20"),
        ("VGG-11", "VGG11"),
        ("f-600", "F-600"),
        ("wrn28-10", "WRN-28-10"),
        ("DenseNet-BC-k13", "DenseNet-BC-k12"),
    ],
)
def test_unknown_names_get_suggestions(name, hint):
    with pytest.raises(CurvboundError, match=r"names\(\) lists them all") as caught:
        build(name, (3, 32, 32), 10)
    assert hint in str(caught.value)


def test_a_name_like_no_other():
    with pytest.raises(CurvboundError) as caught:
        build("", (3, 32, 32), 10)
    expected = "There is no network '': curvbound.networks.names() lists them all."
    assert str(caught.value) == expected


@pytest.mark.parametrize("classes", [1, 0, -3])
def test_fewer_than_two_classes_are_refused(classes):
    with pytest.raises(CurvboundError, match=f"at least 2 classes, not {classes}"):
        build("F-3", (4,), classes)


@pytest.mark.parametrize("shape", [(), (0,), (3, -1, 4), (2.5,), 784, "784"])
def test_impossible_shapes_are_refused(shape):
    with pytest.raises(CurvboundError, match="is not a sequence of positive whole numbers"):
        build("F-3", shape, 2)
