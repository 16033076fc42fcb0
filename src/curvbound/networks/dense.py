"""Fully connected ReLU networks: F-n^m and mixed forms (001 App. B.2), MLP-9960 (004)."""

import itertools
import math
import re

from torch import nn

from curvbound.errors import CurvboundError
from curvbound.networks.shapes import Shape, chain

__all__ = ["dense", "dense_by_name", "hidden_widths"]

_NAME = re.compile(r"[FTR](?P<groups>(?:-[0-9]{1,7}(?:\^[0-9]{1,7})?)+)(?P<norm>-BN)?")
_MOST_LAYERS = 1000


def hidden_widths(name: str) -> tuple[tuple[int, ...], bool]:
    """Widths of the hidden layers, and whether batch normalisation follows each of them.

    ``F-n^m`` has m hidden layers of n neurons; groups are joined by ``-``. The prefixes T- and R-
    of 001 (true and random labels) name the same architectures.

    >>> hidden_widths("F-200^2-100")
    ((200, 200, 100), False)

    Raises:
        CurvboundError: If ``name`` does not follow this grammar.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise CurvboundError(
            f"{name!r} is not the name of a dense network: write F-n for one hidden layer of n "
            f"neurons, F-n^m for m of them, F-200^2-100 for 200, 200, 100, with -BN at the end "
            f"for batch normalisation, and no number of more than seven digits."
        )
    groups = [tuple(map(int, group.split("^"))) for group in match["groups"][1:].split("-")]
    counts = [(group[0], group[1] if len(group) == 2 else 1) for group in groups]
    layers = sum(count for _, count in counts)
    if min(min(pair) for pair in counts) < 1 or layers > _MOST_LAYERS:
        raise CurvboundError(
            f"{name!r} asks for a layer without neurons or for more than {_MOST_LAYERS} layers: "
            f"widths and repetitions must be at least 1."
        )
    widths = tuple(width for width, count in counts for _ in range(count))
    return widths, match["norm"] is not None


def dense(
    input_shape: Shape, classes: int, widths: tuple[int, ...], *, norm: bool = False
) -> nn.Sequential:
    """Flatten, then ``fc1, relu1, [bn1,] fc2, ...`` up to the layer that gives the logits.

    Batch normalisation comes after the ReLU and has no learnable parameters (001 App. B.2).
    """
    sizes = (math.prod(input_shape), *widths)
    layers: list[tuple[str, nn.Module]] = [("flatten", nn.Flatten())]
    for i, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes), start=1):
        layers += [(f"fc{i}", nn.Linear(fan_in, fan_out)), (f"relu{i}", nn.ReLU())]
        if norm:
            layers.append((f"bn{i}", nn.BatchNorm1d(fan_out, affine=False)))
    layers.append((f"fc{len(sizes)}", nn.Linear(sizes[-1], classes)))
    return chain(layers)


def dense_by_name(name: str, input_shape: Shape, classes: int) -> nn.Sequential:
    """The dense network called ``name``; see `hidden_widths` for the grammar."""
    widths, norm = hidden_widths(name)
    return dense(input_shape, classes, widths, norm=norm)
