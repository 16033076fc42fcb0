"""CIFAR-100 as published: the binary version and the Python version."""

from __future__ import annotations

import codecs
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvbound.datasets.cifar import SHAPE, parse_records
from curvbound.datasets.dataset import Dataset
from curvbound.datasets.pixels import pixel_examples
from curvbound.errors import CurvboundError

__all__ = ["load_cifar100_binary", "load_cifar100_python"]

CLASSES = 100
Part = tuple[NDArray[np.uint8], NDArray[np.integer]]


def load_cifar100_binary(folder: Path) -> Dataset:
    """``train.bin``, ``test.bin`` and ``fine_label_names.txt``; the fine labels are the classes.

    Raises:
        CurvboundError: If a file is missing or damaged.
    """
    train, test = (
        parse_records(np.frombuffer(_bytes(file), np.uint8).copy(), str(file), label_bytes=2)
        for file in (folder / "train.bin", folder / "test.bin")
    )
    names = _bytes(folder / "fine_label_names.txt").decode(errors="replace").split()
    return _dataset(folder, train, test, names, "CIFAR-100 binary version")


def load_cifar100_python(folder: Path) -> Dataset:
    """The pickled files ``train``, ``test`` and ``meta``; the fine labels are the classes.

    Only plain values and arrays are unpickled: no code in the files can run.

    Raises:
        CurvboundError: If a file is missing, damaged or holds anything else.
    """
    train, test = (_unpickled_part(folder / part) for part in ("train", "test"))
    names = _unpickle(folder / "meta").get("fine_label_names", [])
    texts = [name.decode() if isinstance(name, bytes) else str(name) for name in names]
    return _dataset(folder, train, test, texts, "CIFAR-100 Python version")


def _dataset(folder: Path, train: Part, test: Part, names: list[str], source: str) -> Dataset:
    if len(names) != CLASSES:
        raise CurvboundError(f"{folder} names {len(names)} fine classes instead of {CLASSES}")
    return Dataset(
        str(folder),
        pixel_examples(*train, CLASSES, f"{folder.name} train"),
        pixel_examples(*test, CLASSES, f"{folder.name} test"),
        tuple(names),
        source,
        str(folder),
    )


def _unpickled_part(file: Path) -> Part:
    content = _unpickle(file)
    pixels, labels = content.get("data"), content.get("fine_labels")
    if (
        not isinstance(pixels, np.ndarray)
        or not isinstance(labels, list)
        or pixels.dtype != np.uint8
        or pixels.shape != (len(labels), np.prod(SHAPE))
        or not all(isinstance(label, int) for label in labels)
    ):
        raise CurvboundError(f"{file} does not hold CIFAR-100's data and fine_labels")
    return pixels.reshape(-1, *SHAPE), np.array(labels, dtype=np.int64)


class _PlainUnpickler(pickle.Unpickler):
    """Builds plain values and NumPy arrays, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return np.empty(0).__reduce__()[0]
        if (module, name) in (("numpy", "ndarray"), ("numpy", "dtype")):
            return getattr(np, name)
        # How Python 3 writes byte strings into files that Python 2 can read.
        if (module, name) == ("_codecs", "encode"):
            return codecs.encode
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed")


def _unpickle(file: Path) -> dict[str, Any]:
    """A pickled dictionary; its keys as text, whichever Python wrote them."""
    try:
        content = _PlainUnpickler(io.BytesIO(_bytes(file)), encoding="bytes").load()
        return {key.decode() if isinstance(key, bytes) else key: content[key] for key in content}
    # A damaged pickle can fail in almost any way.
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, LookupError) as error:
        raise CurvboundError(f"{file} is damaged or no CIFAR-100 file ({error})") from error
    except (AttributeError, ImportError, MemoryError, OverflowError) as error:
        raise CurvboundError(f"{file} is damaged or no CIFAR-100 file ({error})") from error


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise CurvboundError(f"cannot read {file}: {error}") from error
