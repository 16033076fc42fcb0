from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from curvbound.datasets import load
from curvbound.errors import CurvboundError


def fill(folder: Path, count: int, value: int, suffix: str = ".png", size: int = 4) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        pixels = np.full((size, size, 3), value + number, np.uint8)
        Image.fromarray(pixels).save(folder / f"{folder.parent.name}_{number}{suffix}")


def test_one_folder_per_class(tmp_path: Path) -> None:
    fill(tmp_path / "dog", 2, 100)
    fill(tmp_path / "cat", 3, 50)
    (tmp_path / "cat" / "notes.txt").write_text("not a picture")
    data = load(tmp_path)
    assert data.class_names == ("cat", "dog")
    assert data.train.targets.tolist() == [0, 0, 0, 1, 1]
    assert (data.train.inputs[:, 0, 0, 0] * 255).round().tolist() == [50, 51, 52, 100, 101]
    assert data.shape == (3, 4, 4)
    assert data.test is None


@pytest.mark.parametrize("name", ["test", "val"])
def test_train_and_test(tmp_path: Path, name: str) -> None:
    for kind in ("a", "b"):
        fill(tmp_path / "train" / kind, 2, 10)
    fill(tmp_path / name / "b", 1, 99)
    data = load(tmp_path)
    assert data.test is not None
    assert data.test.targets.tolist() == [1]
    assert len(data.train) == 4


def test_unusable_folders(tmp_path: Path) -> None:
    with pytest.raises(CurvboundError, match="has 0 class folders"):
        load(tmp_path)
    fill(tmp_path / "a", 1, 1)
    with pytest.raises(CurvboundError, match="has 1 class folders"):
        load(tmp_path)
    (tmp_path / "b").mkdir()
    with pytest.raises(CurvboundError, match="no pictures in"):
        load(tmp_path)
    fill(tmp_path / "b", 1, 1, size=5)
    with pytest.raises(CurvboundError, match="bring all pictures to one size"):
        load(tmp_path)


def test_a_test_class_that_was_never_trained_on(tmp_path: Path) -> None:
    for kind in ("train/a", "train/b", "test/c"):
        fill(tmp_path / kind, 1, 1)
    with pytest.raises(CurvboundError, match="none of the 2 training classes"):
        load(tmp_path)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    ids = ["n02", "n01"]
    (tmp_path / "wnids.txt").write_text("\n".join(ids) + "\n")
    (tmp_path / "words.txt").write_text("n01\tgoldfish, Carassius\nn02\tnewt\nn99\tunused\n")
    for number, wnid in enumerate(ids):
        fill(tmp_path / "train" / wnid / "images", 3, 100 * number + 20, ".JPEG", 64)
    (tmp_path / "val" / "images").mkdir(parents=True)
    lines = []
    for number, wnid in enumerate(["n01", "n02"]):
        picture = Image.fromarray(np.full((64, 64), 60 * number, np.uint8))
        picture.save(tmp_path / "val" / "images" / f"val_{number}.JPEG")
        lines.append(f"val_{number}.JPEG\t{wnid}\t0\t0\t63\t63\n")
    (tmp_path / "val" / "val_annotations.txt").write_text("".join(lines))
    return tmp_path


def test_tiny_imagenet(tiny: Path) -> None:
    data = load(tiny)
    assert data.class_names == ("newt", "goldfish, Carassius")
    assert data.train.targets.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.shape == (3, 64, 64)
    assert data.test is not None
    assert data.test.targets.tolist() == [1, 0]
    assert abs(float(data.train.inputs[3, 0, 0, 0]) - 120 / 255) < 0.02
    assert abs(float(data.test.inputs[1, 2, 5, 5]) - 60 / 255) < 0.02


def test_tiny_imagenet_with_missing_parts(tiny: Path) -> None:
    annotations = tiny / "val" / "val_annotations.txt"
    annotations.write_text("val_0.JPEG\tn77\t0\t0\t63\t63\n")
    with pytest.raises(CurvboundError, match="unknown class 'n77'"):
        load(tiny)
    annotations.write_text("val_0.JPEG\n")
    with pytest.raises(CurvboundError, match="unknown class ''"):
        load(tiny)
    annotations.write_text("val_8.JPEG\tn01\t0\t0\t63\t63\n")
    with pytest.raises(CurvboundError, match=r"val_8\.JPEG cannot be read"):
        load(tiny)
    annotations.unlink()
    with pytest.raises(CurvboundError, match=r"cannot read .*val_annotations"):
        load(tiny)
