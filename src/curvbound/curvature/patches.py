"""The inputs a convolution sees at each output position, and their second moments."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["Convolution", "columns", "patch_sum", "row_moment", "row_moment_pays"]

Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d

# The row-wise method holds one product per image row; beyond this many numbers it stops paying.
ROW_PRODUCTS = 2**23
# ... and its matrix products need an inner dimension of at least this.
ROW_LENGTH = 256


def padded(conv: Convolution, inputs: Tensor) -> Tensor:
    """Inputs with the padding of the layer, whatever its mode."""
    padding: list[int] = list(conv._reversed_padding_repeated_twice)
    if not any(padding):
        return inputs
    mode = "constant" if conv.padding_mode == "zeros" else conv.padding_mode
    return functional.pad(inputs, padding, mode=mode)


def _windows(conv: Convolution, inputs: Tensor, first: int = 0) -> Tensor:
    """View ``(B, c, *positions, *kernel)`` of padded inputs; spatial axes before ``first`` stay."""
    view = inputs
    for axis in range(first, len(conv.kernel_size)):
        size, step = conv.kernel_size[axis], conv.dilation[axis]
        view = view.unfold(2 + axis, step * (size - 1) + 1, conv.stride[axis])[..., ::step]
    return view


def columns(conv: Convolution, inputs: Tensor) -> Tensor:
    """The matrices X of 001 App. A.2, ``(B, groups, n, P)``: one column per output position."""
    spatial = len(conv.kernel_size)
    if all(size == 1 for size in (*conv.kernel_size, *conv.stride)):
        view = padded(conv, inputs)
    else:
        view = _windows(conv, padded(conv, inputs))
        kernel = range(2 + spatial, 2 + 2 * spatial)
        view = view.permute(0, 1, *kernel, *range(2, 2 + spatial))
    return view.reshape(len(inputs), conv.groups, conv.weight[0].numel(), -1)


def patch_sum(conv: Convolution, inputs: Tensor) -> Tensor:
    """Sum of X over examples and positions, ``(groups, n)``."""
    summed = inputs.sum(0, keepdim=True)
    return columns(conv, summed)[0].sum(2)


def row_moment_pays(conv: Convolution, inputs: Tensor, positions: torch.Size) -> bool:
    """Whether :func:`row_moment` applies and is faster than multiplying the columns."""
    if len(conv.kernel_size) != 2 or conv.groups != 1 or conv.kernel_size[0] == 1:
        return False
    width = inputs.shape[1] * conv.kernel_size[1]
    rows = positions[0] + conv.dilation[0] * (conv.kernel_size[0] - 1)
    small = rows * width * width * conv.kernel_size[0] <= ROW_PRODUCTS
    return conv.stride[0] == 1 and small and len(inputs) * positions[1] >= ROW_LENGTH


def row_moment(conv: Convolution, inputs: Tensor) -> Tensor:
    """Sum of X X^T over examples for a 2-d convolution with vertical stride 1, ``(n, n)``.

    The patches at neighbouring positions share image rows: with Z_r the horizontal patches of row
    r, the block of kernel rows (a, b) is the sum over output rows o of Z_{o+a} Z_{o+b}^T. Each
    product Z_r Z_s^T is formed once instead of once per pair (a, b) with b - a = s - r, and the
    patches are never unfolded vertically.
    """
    (high, wide), gap = conv.kernel_size, conv.dilation[0]
    channels = inputs.shape[1]
    view = _windows(conv, padded(conv, inputs), first=1)
    height = view.shape[2]
    out = height - gap * (high - 1)
    width = channels * wide
    rows = view.permute(2, 1, 4, 0, 3).reshape(height, width, -1)
    products = rows.new_zeros(high, height, width, width)
    flat = rows.reshape(height * width, -1)
    for r in range(height):
        below = range(r, min(height, r + gap * (high - 1) + 1), gap)
        if gap == 1:
            together = rows[r] @ flat[r * width : (r + len(below)) * width].T
            products[: len(below), r] = together.view(width, -1, width).transpose(0, 1)
        else:
            for distance, s in enumerate(below):
                torch.mm(rows[r], rows[s].T, out=products[distance, r])
    moment = rows.new_zeros(high, width, high, width)
    for a in range(high):
        for b in range(a, high):
            block = products[b - a, gap * a : gap * a + out].sum(0)
            moment[a, :, b] = block
            if b > a:
                moment[b, :, a] = block.T
    axes: tuple[Any, ...] = (high, channels, wide) * 2
    n = width * high
    return moment.view(axes).permute(1, 0, 2, 4, 3, 5).reshape(n, n)
