"""Data sets by name."""

from __future__ import annotations

import re
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from curvbound.datasets.dataset import Dataset
from curvbound.datasets.digits import load_digits
from curvbound.datasets.published import PUBLISHED, load_published
from curvbound.datasets.scaling import Scaling, as_scaling
from curvbound.errors import CurvboundError

__all__ = ["load", "names"]

ALIASES = {"cifar": "cifar10", "fashion": "fashion-mnist", "fmnist": "fashion-mnist"}
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
    scaling: str | Scaling | tuple[float, float] | None = None,
    seed: int = 0,
) -> Dataset:
    """A data set by name.

    >>> data = load("digits-2")
    >>> len(data.train), len(data.test), data.shape, data.classes
    (1437, 360, (1, 8, 8), 2)

    Args:
        name: A name of `names`, in any case; ``-K`` after it merges neighbouring classes into
            K (``mnist-2``, ``cifar-5``), ``-random`` or ``-R`` replaces all labels by random
            ones (``MNIST-R``, ``mnist-2-random``).
        scaling: A name (``unit``, ``symmetric``, ``mnist``, ``none``) or a pair of constants
            ``(shift, scale)``; the default is pixels in [0, 1].
        seed: For random labels.

    Raises:
        CurvboundError: If the name is unknown or the data cannot be obtained or read.
    """
    chosen = None if scaling is None else as_scaling(scaling)
    data = _load_named(str(name), seed)
    return data if chosen is None else data.scaled(chosen)


def _load_named(name: str, seed: int) -> Dataset:
    base, classes, random = _parse(name)
    data = load_digits() if base == "digits" else load_published(base)
    if classes:
        data = data.merge(classes)
    if random:
        data = data.random_labels(seed)
    return replace(data, name=name)


def _parse(name: str) -> tuple[str, int | None, bool]:
    """Base name, number of classes to merge to, and whether labels are random."""
    found = VARIANT.fullmatch(name.lower().replace("_", "-"))
    base = found["base"] if found else ""
    base = ALIASES.get(base, base)
    if found is None or base not in names():
        close = get_close_matches(base, names(), n=2, cutoff=0.5)
        hint = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(names())}"
        raise CurvboundError(f"no data set or file {name!r}; {hint}")
    return base, int(found["classes"]) if found["classes"] else None, bool(found["random"])
