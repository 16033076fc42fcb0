import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curvbound.datasets.labels import classes_of_text, label_numbers, number_text_labels
from curvbound.errors import CurvboundError


def test_whole_numbers_sort_by_value_and_text_as_text() -> None:
    assert classes_of_text(np.array(["10", "9", "-1", "9"]), "f") == ("-1", "9", "10")
    assert classes_of_text(np.array(["10", "9", "b"]), "f") == ("10", "9", "b")


@given(st.lists(st.text("abcxyz", min_size=1, max_size=3), min_size=1))
def test_numbers_lead_back_to_the_labels(texts: list[str]) -> None:
    labels = np.array(texts)
    names = classes_of_text(labels, "f")
    assert [names[number] for number in number_text_labels(labels, names, "f")] == texts


@given(st.lists(st.integers(-50, 150), min_size=1))
def test_numeric_labels_keep_their_order(values: list[int]) -> None:
    labels = np.array([str(value) for value in values])
    numbers = number_text_labels(labels, classes_of_text(labels, "f"), "f")
    assert np.array_equal(numbers, np.unique(values, return_inverse=True)[1])


@pytest.mark.parametrize("missing", ["", "nan", "NA"])
def test_missing_label(missing: str) -> None:
    with pytest.raises(CurvboundError, match="without a label"):
        classes_of_text(np.array(["a", missing]), "f")


def test_fractional_labels_are_no_classes() -> None:
    with pytest.raises(CurvboundError, match=r"label 2\.5: labels must be classes"):
        classes_of_text(np.array(["1", "2.5"]), "f")


def test_unknown_text() -> None:
    with pytest.raises(CurvboundError, match="label z, which is none of the 2"):
        number_text_labels(np.array(["a", "z"]), ("a", "b"), "f")


def test_numbers_are_checked() -> None:
    assert label_numbers(np.array([[1.0], [2.0]]), "f").tolist() == [1, 2]
    assert label_numbers(np.array([True, False]), "f").tolist() == [1, 0]
    for bad, message in (
        (np.array([0.5, 1]), "not whole numbers"),
        (np.array([np.nan, 1]), "not whole numbers"),
        (np.array([np.inf, 1]), "not whole numbers"),
        (np.eye(3), "one class number per example"),
        (np.array([1j]), "not class numbers"),
    ):
        with pytest.raises(CurvboundError, match=message):
            label_numbers(bad, "f")
