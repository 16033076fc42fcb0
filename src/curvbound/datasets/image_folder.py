"""Data sets in folders of pictures, one folder per class; Tiny ImageNet's published layout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from curvbound.datasets.dataset import Dataset
from curvbound.datasets.examples import Examples
from curvbound.datasets.pictures import is_picture, read_pictures
from curvbound.datasets.pixels import pixel_examples
from curvbound.errors import CurvboundError

__all__ = ["load_image_folder", "load_tiny_imagenet"]

TEST_FOLDERS = ("test", "val", "valid", "validation")

Listing = tuple[list[Path], list[int]]
"""Picture files and the class number of each."""


def load_image_folder(root: Path) -> Dataset:
    """``root/CLASS/*.png``, or ``root/train/CLASS/*`` and ``root/test/CLASS/*`` (or ``val``).

    Classes are the folder names in sorted order. All pictures must have one size; they are read
    in grey if none of them has colour.

    Raises:
        CurvboundError: If there are no class folders, one is empty, or a picture cannot be used.
    """
    parted = (root / "train").is_dir()
    train_root = root / "train" if parted else root
    class_names = tuple(folder.name for folder in _folders(train_root))
    if len(class_names) < 2:
        raise CurvboundError(
            f"{train_root} has {len(class_names)} class folders: put the pictures of each class, "
            "of which there must be at least 2, in a folder of their own"
        )
    train = _listing(train_root, class_names)
    tests = [root / name for name in TEST_FOLDERS if parted and (root / name).is_dir()]
    test = _listing(tests[0], class_names) if tests else None
    return _dataset(root, train, test, class_names, "image folder")


def load_tiny_imagenet(root: Path) -> Dataset:
    """Tiny ImageNet as published; its validation set serves as the test set (003-C12).

    Raises:
        CurvboundError: If a file is missing or damaged.
    """
    ids = _text(root / "wnids.txt").split()
    numbers = {wnid: number for number, wnid in enumerate(ids)}
    train: Listing = ([], [])
    for wnid, number in numbers.items():
        files = _pictures(root / "train" / wnid / "images")
        train[0].extend(files)
        train[1].extend([number] * len(files))
    test: Listing = ([], [])
    annotations = root / "val" / "val_annotations.txt"
    for line in _text(annotations).splitlines():
        file, wnid = (*line.split("\t"), "", "")[:2]
        if wnid not in numbers:
            raise CurvboundError(f"{annotations} gives {file!r} the unknown class {wnid!r}")
        test[0].append(root / "val" / "images" / file)
        test[1].append(numbers[wnid])
    words = root / "words.txt"
    lines = _text(words).splitlines() if words.is_file() else []
    meaning = dict(line.split("\t", 1) for line in lines if "\t" in line)
    class_names = tuple(meaning.get(wnid, wnid) for wnid in ids)
    return _dataset(root, train, test, class_names, "Tiny ImageNet folder")


def _dataset(
    root: Path, train: Listing, test: Listing | None, class_names: tuple[str, ...], source: str
) -> Dataset:
    def examples(pixels: NDArray[np.uint8], labels: list[int], part: str) -> Examples:
        return pixel_examples(
            pixels, np.array(labels), len(class_names), f"{root.name} {part}".strip()
        )

    # Both parts are read together, so that they agree in size and colour.
    pixels = read_pictures(train[0] + (test[0] if test else []))
    count = len(train[0])
    return Dataset(
        str(root),
        examples(pixels[:count], train[1], "train"),
        examples(pixels[count:], test[1], "test") if test else None,
        class_names,
        source,
        str(root),
    )


def _listing(root: Path, class_names: tuple[str, ...]) -> Listing:
    files: list[Path] = []
    labels: list[int] = []
    for folder in _folders(root):
        if folder.name not in class_names:
            raise CurvboundError(f"{folder} is none of the {len(class_names)} training classes")
        found = _pictures(folder)
        files.extend(found)
        labels.extend([class_names.index(folder.name)] * len(found))
    return files, labels


def _folders(root: Path) -> list[Path]:
    return sorted(f for f in root.iterdir() if f.is_dir() and not f.name.startswith("."))


def _pictures(folder: Path) -> list[Path]:
    found = sorted(file for file in folder.iterdir() if is_picture(file)) if folder.is_dir() else []
    if not found:
        raise CurvboundError(f"there are no pictures in {folder}")
    return found


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CurvboundError(f"cannot read {file}: {error}") from error
