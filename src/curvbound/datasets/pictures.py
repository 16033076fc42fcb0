"""Picture files read into one array of pixels."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from curvbound.datasets.progress import progress
from curvbound.errors import CurvboundError

__all__ = ["is_picture", "read_pictures"]

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff"}
GREY = {"1", "L"}
COLOUR = {"P", "RGB", "RGBA", "LA", "CMYK", "YCbCr"}


def is_picture(path: Path) -> bool:
    """Whether the file is a picture, by its name."""
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def read_pictures(files: Sequence[Path]) -> NDArray[np.uint8]:
    """Pixels ``(N, channels, height, width)`` of pictures of one size.

    There are 3 channels if any picture has colour, else 1.

    Raises:
        CurvboundError: If a picture cannot be read or differs in size from the first.
    """
    with ThreadPoolExecutor() as pool, progress("reading pictures", total=2 * len(files)) as bar:
        heads = []
        for head in pool.map(_head, files):
            heads.append(head)
            bar.update(1)
        size = heads[0][0]
        for file, head in zip(files, heads, strict=True):
            if head[0] != size:
                raise CurvboundError(
                    f"{file} is {_by(head[0])} pixels but {files[0]} is {_by(size)}: bring all "
                    "pictures to one size"
                )
        mode, channels = ("RGB", 3) if any(mode in COLOUR for _, mode in heads) else ("L", 1)
        pixels = np.empty((len(files), channels, size[1], size[0]), dtype=np.uint8)

        def decode(index: int) -> None:
            pixels[index] = _decode(files[index], mode)

        for _ in pool.map(decode, range(len(files))):
            bar.update(1)
    return pixels


def _head(file: Path) -> tuple[tuple[int, int], str]:
    """Size and mode."""
    from PIL import Image

    try:
        with Image.open(file) as image:
            size, mode = image.size, image.mode
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise CurvboundError(f"the picture {file} cannot be read ({error})") from error
    if mode not in GREY | COLOUR:
        raise CurvboundError(f"the picture {file} has mode {mode}: 8 bits per channel are needed")
    return size, mode


def _decode(file: Path, mode: str) -> NDArray[np.uint8]:
    from PIL import Image

    try:
        with Image.open(file) as image:
            values = np.asarray(image.convert(mode))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise CurvboundError(f"the picture {file} cannot be read ({error})") from error
    return values[None] if mode == "L" else values.transpose(2, 0, 1)


def _by(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]}"
