"""Data sets in NumPy archives."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from curvbound.datasets.dataset import Dataset
from curvbound.datasets.examples import Examples
from curvbound.datasets.labels import classes_of_text, label_numbers, number_text_labels
from curvbound.datasets.pixels import pixel_examples
from curvbound.errors import CurvboundError

__all__ = ["load_npz"]

Array = NDArray[np.generic]
TRAIN = ("x_train", "y_train")
TEST = ("x_test", "y_test")


def load_npz(path: Path) -> Dataset:
    """An ``.npz`` archive with ``X`` and ``y``, or ``x_train, y_train`` and perhaps a test part.

    Bytes are pixels: ``(N, H, W)`` gets a channel axis and they are divided by 255. A last axis
    of 1 or 3 channels is moved to the front. Other numbers are taken as they are.

    Raises:
        CurvboundError: If the file cannot be read or does not hold such arrays.
    """
    arrays = _read(path)
    if "x" in arrays and "y" in arrays:
        arrays["x_train"], arrays["y_train"] = arrays["x"], arrays["y"]
    if not arrays.keys() >= set(TRAIN):
        raise CurvboundError(
            f"{path} has arrays {', '.join(arrays) or 'none'}: it needs X and y, or x_train, "
            "y_train, x_test and y_test"
        )
    if len(given := arrays.keys() & set(TEST)) == 1:
        raise CurvboundError(f"{path} has {given.pop()} but not the other half of the test part")
    train_labels = arrays["y_train"]
    if train_labels.dtype.kind == "U":
        class_names = classes_of_text(train_labels.astype(np.str_), path.name)
    else:
        class_names = _numbered_classes(label_numbers(train_labels, path.name), path.name)
    parts = [
        _examples(arrays[x], arrays[y], class_names, f"{path.name} {x[2:]}")
        for x, y in (TRAIN, TEST)
        if x in arrays
    ]
    test = parts[1] if given else None
    return Dataset(str(path), parts[0], test, class_names, "NumPy archive", str(path))


def _read(path: Path) -> dict[str, Array]:
    try:
        # Opened here, since np.load leaves a damaged file open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name.lower(): archive[name] for name in archive.files}
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        pickled = "allow_pickle" in str(error)
        reason = "it holds pickled objects, which are refused for safety" if pickled else error
        raise CurvboundError(f"cannot read the NumPy archive {path}: {reason}") from error


def _numbered_classes(labels: NDArray[np.int64], name: str) -> tuple[str, ...]:
    if len(labels) == 0:
        raise CurvboundError(f"{name} is empty: it has no labels")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= len(labels):
        raise CurvboundError(
            f"{name} has label {low if low < 0 else high}, out of range: number the classes from "
            "0 without large gaps, or give them as text"
        )
    return tuple(str(label) for label in range(high + 1))


def _examples(inputs: Array, labels: Array, class_names: tuple[str, ...], name: str) -> Examples:
    if labels.dtype.kind == "U":
        targets = number_text_labels(labels.astype(np.str_).ravel(), class_names, name)
    else:
        targets = label_numbers(labels, name)
    pictures = inputs.dtype == np.uint8
    if pictures and inputs.ndim == 3:
        inputs = inputs[:, None]
    elif inputs.ndim == 4 and inputs.shape[3] in (1, 3) and inputs.shape[1] not in (1, 3):
        inputs = np.moveaxis(inputs, 3, 1)
    if inputs.dtype.kind not in "iubf":
        raise CurvboundError(f"the inputs of {name} are {inputs.dtype}, not numbers")
    if pictures:
        pixels = np.ascontiguousarray(inputs, dtype=np.uint8)
        return pixel_examples(pixels, targets, len(class_names), name)
    numbers = np.ascontiguousarray(inputs, dtype=np.float64)
    return Examples(
        torch.from_numpy(numbers).to(torch.float32),
        torch.from_numpy(targets),
        len(class_names),
        name,
    )
