"""The idx file format of MNIST and its relatives."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from curvbound.errors import CurvboundError

__all__ = ["parse_idx"]

UNSIGNED_BYTE = 0x08


def parse_idx(content: NDArray[np.uint8], name: str) -> NDArray[np.uint8]:
    """The array in an idx file of unsigned bytes.

    Two zero bytes, the type, the number of dimensions, each size as a big-endian 32-bit
    integer, then the values.

    Raises:
        CurvboundError: If the file is not of this format or its length does not fit.
    """
    head = content[:4].tolist()
    if len(head) < 4 or head[:3] != [0, 0, UNSIGNED_BYTE] or head[3] == 0:
        raise CurvboundError(f"{name} is not an idx file of unsigned bytes")
    start = 4 + 4 * head[3]
    if len(content) < start:
        raise CurvboundError(f"{name} is truncated: it ends within its header")
    sizes = np.frombuffer(content[4:start].tobytes(), dtype=">u4")
    shape = tuple(int(size) for size in sizes)
    if len(content) != start + math.prod(shape):
        raise CurvboundError(
            f"{name} is truncated or too long: {len(content)} bytes where shape {shape} needs "
            f"{start + math.prod(shape)}"
        )
    return content[start:].reshape(shape)
