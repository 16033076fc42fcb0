"""Sizes of inputs and feature maps, checked before a network is made."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from torch import nn

from curvbound.errors import CurvboundError

__all__ = ["Shape", "Window", "chain", "image_shape", "output_sides"]

Shape: TypeAlias = tuple[int, ...]


class Window(NamedTuple):
    """A convolution or pooling window along one side of an image."""

    size: int
    stride: int = 1
    padding: int = 0

    def output(self, side: int) -> int:
        """Length of the output for an input of length ``side``."""
        return (side + 2 * self.padding - self.size) // self.stride + 1


def chain(layers: Iterable[tuple[str, nn.Module]]) -> nn.Sequential:
    """A network that applies named layers one after the other."""
    return nn.Sequential(OrderedDict(layers))


def image_shape(name: str, input_shape: Shape) -> tuple[int, int, int]:
    """``input_shape`` as (channels, height, width).

    Raises:
        CurvboundError: If ``input_shape`` does not have three entries.
    """
    if len(input_shape) != 3:
        raise CurvboundError(
            f"{name} takes images of shape (channels, height, width), not inputs of shape "
            f"{input_shape}: reshape the inputs or choose a dense network such as F-600."
        )
    channels, height, width = input_shape
    return channels, height, width


def output_sides(name: str, sides: tuple[int, int], windows: Iterable[Window]) -> tuple[int, int]:
    """Height and width that are left after all ``windows``.

    Raises:
        CurvboundError: If a window does not fit, naming the smallest image that would do.
    """
    windows = tuple(windows)
    height, width = (_shrink(side, windows) for side in sides)
    if min(height, width) < 1:
        smallest = next(side for side in range(1, 10_000) if _shrink(side, windows) >= 1)
        raise CurvboundError(
            f"{name} needs images of at least {smallest}x{smallest} pixels, not "
            f"{sides[0]}x{sides[1]}: use larger images or a dense network such as F-600."
        )
    return height, width


def _shrink(side: int, windows: tuple[Window, ...]) -> int:
    for window in windows:
        side = window.output(side)
        if side < 1:
            return 0
    return side
