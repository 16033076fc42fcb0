"""From bytes to pixels between 0 and 1."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from curvbound.datasets.examples import Examples
from curvbound.datasets.origin import Origin
from curvbound.datasets.scaling import SCALINGS

__all__ = ["pixel_examples"]


def pixel_examples(
    pixels: NDArray[np.uint8],
    labels: NDArray[np.integer],
    classes: int,
    name: str,
    *,
    brightest: int = 255,
    origin: Origin | None = None,
) -> Examples:
    """Examples with inputs ``pixels / brightest`` in float32.

    Args:
        pixels: Bytes ``(N, channels, height, width)``.
        labels: One label per picture.
        classes: Number of classes.
        name: Name of the examples.
        brightest: The byte that becomes 1.
        origin: Where the rows come from, if not from here.
    """
    return Examples(
        torch.from_numpy(pixels).to(torch.float32).div_(brightest),
        torch.from_numpy(labels).to(torch.int64),
        classes,
        name,
        SCALINGS["unit"],
        origin,
    )
