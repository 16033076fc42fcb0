"""Data sets by name or by file."""

from __future__ import annotations

import re
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from curvbound.datasets.dataset import Dataset
from curvbound.datasets.digits import load_digits
from curvbound.datasets.files import load_path, looks_like_path
from curvbound.datasets.published import PUBLISHED, load_published
from curvbound.datasets.scaling import ScalingChoice, as_scaling
from curvbound.errors import CurvboundError

__all__ = ["load", "names"]

ALIASES = {"cifar": "cifar10", "fashion": "fashion-mnist", "fmnist": "fashion-mnist"}
BY_FILE = {"cifar100", "tinyimagenet"}
VARIANT = re.compile(r"(?P<base>.+?)(-(?P<classes>\d+))?(?P<random>-(r|random))?")


def names() -> list[str]:
    """The data sets that `load` knows by name, without their variants.

    >>> names()
    ['digits', 'mnist', 'fashion-mnist', 'cifar10']
    """
    return ["digits", *PUBLISHED]


def load(
    name: str | Path,
    *,
    scaling: ScalingChoice | None = None,
    seed: int = 0,
) -> Dataset:
    """A data set by name, or from a file or folder.

    >>> data = load("digits-2")
    >>> len(data.train), len(data.test), data.shape, data.classes
    (1437, 360, (1, 8, 8), 2)

    Args:
        name: A name of `names`, in any case; ``-K`` after it merges neighbouring classes into
            K (``mnist-2``, ``cifar-5``), ``-random`` or ``-R`` replaces all labels by random
            ones (``MNIST-R``, ``mnist-2-random``). Or a path: an ``.npz`` or ``.csv`` file, an
            image folder, CIFAR-100 or Tiny ImageNet as published. A string that is both a name
            and a folder means the name; write ``./mnist`` for the folder.
        scaling: A name (``unit``, ``symmetric``, ``mnist``, ``none``) or a pair of constants
            ``(shift, scale)``; by default pixels are in [0, 1] and tables as they are.
        seed: For random labels.

    Raises:
        CurvboundError: If the name is unknown or the data cannot be obtained or read.
    """
    chosen = None if scaling is None else as_scaling(scaling)
    data = load_path(name) if isinstance(name, Path) else _load_text(name, seed)
    return data if chosen is None else data.scaled(chosen)


def _load_text(name: str, seed: int) -> Dataset:
    variant = _parse(name)
    if variant is None and (looks_like_path(name) or Path(name).exists()):
        return load_path(Path(name).expanduser())
    if variant is None:
        raise CurvboundError(f"there is no data set or file {name!r}{_hint(name)}")
    base, classes, random = variant
    data = load_digits() if base == "digits" else load_published(base)
    if classes:
        data = data.merge(classes)
    if random:
        data = data.random_labels(seed)
    return replace(data, name=name)


def _parse(name: str) -> tuple[str, int | None, bool] | None:
    """Base name, number of classes to merge to, and whether labels are random; or no name."""
    found = VARIANT.fullmatch(name.lower().replace("_", "-"))
    base = found["base"] if found else ""
    base = ALIASES.get(base, base)
    if found is None or base not in names() or _plain(name) in BY_FILE:
        return None
    return base, int(found["classes"]) if found["classes"] else None, bool(found["random"])


def _hint(name: str) -> str:
    if _plain(name) in BY_FILE:
        return ": it is not fetched by name, so give the path of its folder"
    close = get_close_matches(name.lower(), [*names(), *ALIASES], n=2, cutoff=0.5)
    return f", did you mean {' or '.join(close)}?" if close else f"; known: {', '.join(names())}"


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
