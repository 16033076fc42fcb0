import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from curvbound.errors import CurvboundError
from curvbound.networks import build
from curvbound.networks.dense import hidden_widths

groups = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 4)), min_size=1, max_size=4)


def spell(groups, prefix="F", norm=False, ones=False):
    parts = [f"{n}^{m}" if m > 1 or ones else f"{n}" for n, m in groups]
    return "-".join([prefix, *parts]) + ("-BN" if norm else "")


@given(groups, st.sampled_from("FTR"), st.booleans(), st.booleans())
def test_grammar_reads_what_was_spelled(groups, prefix, norm, ones):
    widths, found_norm = hidden_widths(spell(groups, prefix, norm, ones))
    assert widths == tuple(n for n, m in groups for _ in range(m))
    assert found_norm is norm


@given(groups, st.integers(1, 9), st.integers(2, 5), st.booleans())
def test_layers_are_as_wide_as_the_name_says(groups, features, classes, norm):
    model = build(spell(groups, norm=norm), (features,), classes)
    linear = [layer for layer in model if isinstance(layer, nn.Linear)]
    widths = [n for n, m in groups for _ in range(m)]
    assert [layer.in_features for layer in linear] == [features, *widths]
    assert [layer.out_features for layer in linear] == [*widths, classes]
    assert sum(isinstance(layer, nn.BatchNorm1d) for layer in model) == norm * len(widths)


@pytest.mark.parametrize(
    "name",
    [
        "F-",
        "F-a",
        "F-3^",
        "F-^3",
        "F-3^^2",
        "F--3",
        "F-3-",
        "F-3^2^2",
        "F-3-bn",
        "F-BN",
        "F-3 ",
        "F-0",
        "F-3^0",
        "F-3^1001",
        "F-12345678",
        "F-٣",
        "F-" + "9" * 5000,
        "F-3\n",
    ],
)
def test_other_names_are_refused_in_one_sentence(name):
    with pytest.raises(CurvboundError) as caught:
        build(name, (4,), 2)
    assert str(caught.value).count(". ") == 0
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("name", "shape", "classes", "count"),
    [
        ("F-100", (784,), 10, 79_510),
        ("MLP-9960", (1, 28, 28), 10, 9_960),
        ("T-600", (1, 28, 28), 2, 472_202),
        ("R-600", (784,), 2, 472_202),
        ("F-300^2", (1, 28, 28), 10, 784 * 300 + 300 + 300 * 301 + 3010),
    ],
)
def test_parameter_counts(name, shape, classes, count):
    assert sum(p.numel() for p in build(name, shape, classes).parameters()) == count


@pytest.mark.parametrize("shape", [(7,), (1, 8, 8), (3, 5, 4), (2, 3, 2, 2)])
def test_any_input_is_flattened(shape):
    model = build("F-5^2-3", shape, 4)
    assert model(torch.ones(6, *shape)).shape == (6, 4)
    assert model.fc1.in_features == math.prod(shape)


def test_layer_names_and_order():
    names = [name for name, _ in build("F-4-3-BN", (2,), 2).named_children()]
    assert names == ["flatten", "fc1", "relu1", "bn1", "fc2", "relu2", "bn2", "fc3"]


def test_batch_normalisation_has_no_parameters():
    plain, normed = build("F-4^2", (3,), 2), build("F-4^2-BN", (3,), 2)
    assert [n for n, _ in plain.named_parameters()] == [n for n, _ in normed.named_parameters()]
    assert all(
        torch.equal(p, q) for p, q in zip(plain.parameters(), normed.parameters(), strict=True)
    )
