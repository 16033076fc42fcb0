import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from curvbound.datasets.cifar import CIFAR10_TRAIN, parse_records, rebuild_batches
from curvbound.errors import CurvboundError


def archive(folder: Path, per_batch: int = 2) -> np.ndarray:
    """A small picture archive; returns its pixels (12, 32, 32, 3), the test batch last."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(256, size=(6 * per_batch, 32, 32, 3), dtype=np.uint8)
    names = [*(Path(name).stem for name in CIFAR10_TRAIN), "test_batch"]
    for name, batch in zip(names, np.split(pixels, 6), strict=True):
        Image.fromarray(batch.reshape(per_batch, 1024, 3)).save(folder / f"{name}.png")
    (folder / "train_lables.json").write_text(json.dumps(list(range(5 * per_batch))))
    (folder / "test_lables.json").write_text(json.dumps([7] * per_batch))
    return pixels


def test_rebuilt_batches_hold_label_and_planes(tmp_path: Path) -> None:
    pixels = archive(tmp_path)
    rebuild_batches(tmp_path, tmp_path)
    for number, file in enumerate([*CIFAR10_TRAIN, "test_batch.bin"]):
        found, labels = parse_records(np.fromfile(tmp_path / file, np.uint8), file, label_bytes=1)
        expected = pixels[2 * number : 2 * number + 2].transpose(0, 3, 1, 2)
        assert np.array_equal(found, expected)
        assert labels.tolist() == ([2 * number, 2 * number + 1] if number < 5 else [7, 7])


def test_damaged_archive(tmp_path: Path) -> None:
    archive(tmp_path)
    (tmp_path / "data_batch_2.png").write_bytes((tmp_path / "data_batch_2.png").read_bytes()[:500])
    with pytest.raises(CurvboundError, match=r"data_batch_2\.png cannot be read"):
        rebuild_batches(tmp_path, tmp_path)


def test_archive_with_too_few_labels(tmp_path: Path) -> None:
    archive(tmp_path)
    (tmp_path / "test_lables.json").write_text("[1]")
    with pytest.raises(CurvboundError, match="has 2 pictures, not 1"):
        rebuild_batches(tmp_path, tmp_path)
    (tmp_path / "test_lables.json").write_text("[1")
    with pytest.raises(CurvboundError, match="list of labels"):
        rebuild_batches(tmp_path, tmp_path)


@pytest.mark.parametrize("size", [0, 1, 3072, 3074])
def test_not_a_whole_number_of_records(size: int) -> None:
    with pytest.raises(CurvboundError, match="3073-byte records"):
        parse_records(np.zeros(size, np.uint8), "file", label_bytes=1)


def test_the_last_label_byte_is_the_class() -> None:
    content = np.zeros(3074, np.uint8)
    content[:3] = 4, 9, 200
    pixels, labels = parse_records(content, "file", label_bytes=2)
    assert labels.tolist() == [9]
    assert pixels[0, 0, 0, 0] == 200
