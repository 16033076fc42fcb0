"""From the labels in a file to classes 0 to C-1."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from curvbound.errors import CurvboundError

__all__ = ["classes_of_text", "label_numbers", "number_text_labels"]


def classes_of_text(labels: NDArray[np.str_], name: str) -> tuple[str, ...]:
    """The distinct labels in sorted order: by value if all are whole numbers, else as text.

    Raises:
        CurvboundError: If a label is missing, or the labels are numbers but not whole ones.
    """
    distinct = sorted(set(labels.tolist()))
    if any(text.lower() in ("", "nan", "na", "null") for text in distinct):
        raise CurvboundError(f"{name} has an example without a label")
    try:
        values = {text: float(text) for text in distinct}
    except ValueError:
        return tuple(distinct)
    for text, value in values.items():
        if not value.is_integer():
            raise CurvboundError(
                f"{name} has label {text}: labels must be classes, that is text or whole numbers"
            )
    return tuple(sorted(distinct, key=lambda text: values[text]))


def number_text_labels(
    labels: NDArray[np.str_], class_names: tuple[str, ...], name: str
) -> NDArray[np.int64]:
    """The position of each label among the class names.

    Raises:
        CurvboundError: If a label is none of them.
    """
    order = np.argsort(class_names)
    ordered = np.asarray(class_names)[order]
    found = np.minimum(np.searchsorted(ordered, labels), len(ordered) - 1)
    if (unknown := ordered[found] != labels).any():
        raise CurvboundError(
            f"{name} has label {labels[unknown][0]!s}, which is none of the {len(class_names)} "
            "training classes"
        )
    return order[found].astype(np.int64)


def label_numbers(labels: NDArray[np.generic], name: str) -> NDArray[np.int64]:
    """Labels that are stored as numbers, checked to be whole.

    Raises:
        CurvboundError: If they are no numbers, not whole, or not one per example.
    """
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise CurvboundError(
            f"the labels of {name} have shape {labels.shape}: give one class number per example"
        )
    if labels.dtype.kind not in "iubf":
        raise CurvboundError(f"the labels of {name} are {labels.dtype}, not class numbers")
    # The comparison with a NaN or an infinity is meant to fail, not to warn.
    with np.errstate(invalid="ignore"):
        whole = labels.astype(np.int64)
    if not np.array_equal(whole, labels):
        raise CurvboundError(f"the labels of {name} are not whole numbers")
    return whole
