import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from curvbound import CurvboundError, datasets
from curvbound.certificates.inputs import (
    as_examples,
    count_repeated_rows,
    halves,
    require_disjoint,
    require_fixed_scaling,
)

X, Y = torch.randn(6, 3), torch.tensor([0, 1, 2, 0, 1, 2])


@pytest.mark.parametrize(
    "data",
    [
        (X, Y),
        [X, Y],
        (X.numpy(), Y.numpy()),
        DataLoader(TensorDataset(X, Y), batch_size=4),
        [(X[:3], Y[:3]), (X[3:], Y[3:])],
        [[X[:3], Y[:3]], [X[3:], Y[3:]]],
        [(X[:1], Y[:1]), (X[1:3], Y[1:3]), (X[3:], Y[3:])],
        datasets.Examples(X, Y, classes=3),
    ],
    ids=["tuple", "list", "numpy", "loader", "two batches", "two lists", "batches", "examples"],
)
def test_every_form_of_data_gives_the_same_examples(data):
    found = as_examples(data)
    assert found.hash == datasets.Examples(X, Y, classes=3).hash


def test_a_data_set_means_its_training_part():
    data = datasets.load("digits")
    assert as_examples(data) is data.train


def test_the_number_of_classes_can_be_given():
    assert as_examples((X, Y), classes=7).classes == 7
    assert as_examples((X, torch.zeros(6, dtype=torch.int64))).classes == 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((X, Y.float()), "labels of the data are not whole numbers"),
        ((X[:0], Y[:0]), "empty"),
        ([], "empty"),
        (7, "are a int"),
        ("digits", "batches"),
        ([X], "batches"),
        ((X, Y - 1), "label -1"),
        ((X[:3], Y), "3 inputs but 6 labels"),
        ((X * float("nan"), Y), "NaN"),
        ((np.zeros((6, 3), dtype=np.int64), Y), "floating point"),
        (("some", "text"), "no array of numbers"),
    ],
)
def test_data_that_cannot_be_used_are_refused(data, message):
    with pytest.raises(CurvboundError, match=message):
        as_examples(data)


def test_labels_beyond_the_known_classes_are_refused():
    with pytest.raises(CurvboundError, match="label 2"):
        as_examples((X, Y), classes=2)


def test_halves_are_disjoint_and_whole(digits):
    first, second = halves(digits, 0)
    assert len(first) + len(second) == len(digits)
    require_disjoint(first, second)
    with pytest.raises(CurvboundError, match="200 examples are in both the prior data"):
        require_disjoint(first, digits)


def test_scaling_fitted_on_the_bound_data_is_refused(digits):
    first, second = halves(digits, 0)
    fitted = datasets.fit_scaling(first)
    require_fixed_scaling(second.scaled(fitted))
    with pytest.raises(CurvboundError, match="fitted on the bound data"):
        require_fixed_scaling(first.scaled(fitted))
    require_fixed_scaling(first.scaled("symmetric"))


def test_identical_rows_are_counted_with_their_labels():
    data = datasets.Examples(X, Y, classes=3)
    again = datasets.Examples(torch.cat([X[:2], X[:1], X[:1] + 1]), torch.tensor([0, 0, 0, 0]), 3)
    assert count_repeated_rows(data, again) == 2
