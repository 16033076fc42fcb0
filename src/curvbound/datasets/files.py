"""Data sets that the user supplies as files or folders."""

from __future__ import annotations

from pathlib import Path

from curvbound.datasets.cifar100 import load_cifar100_binary, load_cifar100_python
from curvbound.datasets.dataset import Dataset
from curvbound.datasets.image_folder import load_image_folder, load_tiny_imagenet
from curvbound.datasets.npz import load_npz
from curvbound.datasets.table import load_csv
from curvbound.errors import CurvboundError

__all__ = ["load_path", "looks_like_path"]

FILES = {".npz": load_npz, ".csv": load_csv}


def looks_like_path(name: str) -> bool:
    """Whether a string means a file or folder even if none is there."""
    return "/" in name or "\\" in name or Path(name).suffix.lower() in FILES


def load_path(path: Path) -> Dataset:
    """A data set from an ``.npz`` or ``.csv`` file or a folder of a known layout.

    Raises:
        CurvboundError: If there is no such file, its format is unknown or its content unusable.
    """
    if path.is_dir():
        data = _load_folder(path)
    elif not path.exists():
        raise CurvboundError(f"there is no file or folder {path}")
    elif path.suffix.lower() in FILES:
        data = FILES[path.suffix.lower()](path)
    else:
        raise CurvboundError(
            f"{path} is no known kind of data file: give an .npz or .csv file or a folder"
        )
    labels = data.train.targets
    if bool((labels == labels[0]).all()):
        raise CurvboundError(
            f"all training examples of {path} have the label {data.class_names[int(labels[0])]!r}: "
            "at least 2 classes are needed"
        )
    return data


def _load_folder(path: Path) -> Dataset:
    if (path / "wnids.txt").is_file():
        return load_tiny_imagenet(path)
    if (path / "train.bin").is_file():
        return load_cifar100_binary(path)
    if (path / "train").is_file() and (path / "meta").is_file():
        return load_cifar100_python(path)
    return load_image_folder(path)
