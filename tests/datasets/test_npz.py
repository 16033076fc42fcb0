from pathlib import Path

import numpy as np
import pytest
import torch

from curvbound.datasets import load
from curvbound.errors import CurvboundError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data.npz"


def test_floats_are_taken_as_they_are(path: Path) -> None:
    inputs = np.random.default_rng(0).normal(size=(6, 3)) * 100
    np.savez(path, X=inputs, y=[0, 1, 2, 0, 1, 2])
    data = load(str(path))
    assert data.test is None
    assert data.class_names == ("0", "1", "2")
    assert torch.equal(data.train.inputs, torch.tensor(inputs, dtype=torch.float32))
    assert data.scaling.name == "none"


def test_pictures_in_the_layout_of_the_keras_archives(path: Path) -> None:
    pixels = np.random.default_rng(0).integers(256, size=(4, 5, 6), dtype=np.uint8)
    labels = np.array([0, 1, 0, 1], dtype=np.uint8)
    np.savez_compressed(path, x_train=pixels, y_train=labels, x_test=pixels[:2], y_test=labels[:2])
    data = load(path)
    assert data.shape == (1, 5, 6)
    assert data.scaling.name == "unit"
    assert torch.equal(data.train.inputs, torch.from_numpy(pixels[:, None]).float() / 255)
    assert data.test is not None
    assert data.test.targets.tolist() == [0, 1]


def test_channels_move_to_the_front(path: Path) -> None:
    pixels = np.random.default_rng(0).integers(256, size=(4, 8, 9, 3), dtype=np.uint8)
    np.savez(path, X=pixels, y=[[0], [1], [0], [1]])
    data = load(path)
    assert data.shape == (3, 8, 9)
    assert data.train.inputs[1, 2, 3, 4] == pixels[1, 3, 4, 2] / np.float32(255)


def test_text_labels(path: Path) -> None:
    rows = np.eye(3)
    np.savez(path, x_train=rows, y_train=["b", "a", "b"], x_test=rows, y_test=["a", "a", "b"])
    data = load(path)
    assert data.class_names == ("a", "b")
    assert data.train.targets.tolist() == [1, 0, 1]
    assert data.test is not None
    assert data.test.targets.tolist() == [0, 0, 1]


ROWS = np.eye(3)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": ROWS}, "needs X and y"),
        ({"x_train": ROWS, "y_train": [0, 1, 0], "x_test": ROWS}, "other half of the test part"),
        ({"X": ROWS, "y": [0, -1, 1]}, "label -1, out of range"),
        ({"X": ROWS, "y": [0, 1, 1000]}, "label 1000, out of range"),
        ({"X": ROWS, "y": [0, 1]}, "3 inputs but 2 labels"),
        ({"X": ROWS, "y": ROWS}, "one class number per example"),
        ({"X": ROWS, "y": [1, 1, 1]}, "have the label '1': at least 2 classes"),
        ({"X": ROWS, "y": [0, 0, 0]}, "1 class: at least 2"),
        ({"X": ROWS[:0], "y": np.zeros(0, int)}, "empty"),
        ({"X": np.full((3, 2), np.nan), "y": [0, 1, 0]}, "NaN"),
        ({"X": ROWS * 1j, "y": [0, 1, 0]}, "complex128, not numbers"),
        ({"X": ROWS, "y": [0.5, 1, 0]}, "not whole"),
        ({"X": np.array([{}, {}, {}]), "y": [0, 1, 0]}, "pickled objects, which are refused"),
        (
            {"x_train": ROWS, "y_train": [0, 1, 0], "x_test": ROWS, "y_test": [0, 1, 2]},
            "label 2, out of range",
        ),
        (
            {"x_train": ROWS, "y_train": ["a", "b", "a"], "x_test": ROWS, "y_test": ["c"] * 3},
            "label c, which is none",
        ),
    ],
)
def test_unusable_content(path: Path, arrays: dict[str, object], message: str) -> None:
    np.savez(path, **arrays)
    with pytest.raises(CurvboundError, match=message):
        load(path)


def test_damaged_archives(path: Path) -> None:
    np.savez_compressed(path, X=np.random.default_rng(0).normal(size=(50, 9)), y=[0, 1] * 25)
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 3] ^= 0xFF
    for content in (b"", b"text", whole[:100], whole[: len(whole) // 2], bytes(flipped)):
        path.write_bytes(content)
        with pytest.raises(CurvboundError, match="cannot read the NumPy archive"):
            load(path)


def test_a_single_array_is_no_archive(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, ROWS)
    with pytest.raises(CurvboundError, match="cannot read the NumPy archive"):
        load(path)
