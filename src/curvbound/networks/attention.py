"""A small attention network for images, in patches, and for sequences.

Everything in it is built from layers with second derivatives: separate linear maps for queries,
keys and values, and the softmax written out.
"""

import math

import torch
from torch import Tensor, nn

from curvbound.errors import CurvboundError
from curvbound.networks.shapes import Shape, chain

__all__ = ["Positions", "attention_small"]

_WIDTH = 64
_HEADS = 4
_BLOCKS = 2
_HIDDEN = 128
_PATCH_SIDES = (4, 2)
_FEWEST_PATCHES = 16


class _Patches(nn.Module):
    """Cuts (N, C, H, W) images into (N, patches, features)."""

    def __init__(self, side: int):
        super().__init__()
        self.side = side

    def forward(self, x: Tensor) -> Tensor:
        n, channels, height, width = x.shape
        rows, columns = height // self.side, width // self.side
        x = x.reshape(n, channels, rows, self.side, columns, self.side)
        return x.permute(0, 2, 4, 1, 3, 5).reshape(n, rows * columns, channels * self.side**2)


class Positions(nn.Module):
    """Adds a learned vector for each position.

    Attributes:
        weight: One row for each position.
    """

    def __init__(self, tokens: int, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(tokens, width))

    def forward(self, x: Tensor) -> Tensor:
        """``x`` of shape (N, tokens, width) with the positions added."""
        return x + self.weight


class _Attention(nn.Module):
    """Softmax attention with several heads."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.softmax = nn.Softmax(dim=-1)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        mixed = self.softmax(scores) @ value
        output: Tensor = self.output(mixed.transpose(1, 2).flatten(-2))
        return output


class _Block(nn.Module):
    """Attention and a two-layer network, each on a normalised input and added to it."""

    def __init__(self, width: int, heads: int, hidden: int):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = _Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, hidden)
        self.gelu = nn.GELU()
        self.fc2 = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        output: Tensor = x + self.fc2(self.gelu(self.fc1(self.norm2(x))))
        return output


class _MeanOverTokens(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=1)


def attention_small(name: str, input_shape: Shape, classes: int) -> nn.Sequential:
    """Two attention blocks of width 64 with 4 heads, then the mean over tokens.

    Images (channels, height, width) are cut into patches of 4x4 pixels, or of 2x2 or single
    pixels where 4x4 does not fit or leaves fewer than 16 patches. An input of shape (length,
    features) is a sequence.
    """
    layers: list[tuple[str, nn.Module]] = []
    match input_shape:
        case (channels, height, width):
            side = _patch_side(height, width)
            tokens, features = height * width // side**2, channels * side**2
            layers.append(("patches", _Patches(side)))
        case (tokens, features):
            pass
        case _:
            raise CurvboundError(
                f"{name} takes images (channels, height, width) or sequences (length, features), "
                f"not inputs of shape {input_shape}: reshape them or choose another network."
            )
    layers += [("embed", nn.Linear(features, _WIDTH)), ("positions", Positions(tokens, _WIDTH))]
    layers += [(f"block{i + 1}", _Block(_WIDTH, _HEADS, _HIDDEN)) for i in range(_BLOCKS)]
    layers += [("norm", nn.LayerNorm(_WIDTH)), ("mean", _MeanOverTokens())]
    layers.append(("fc", nn.Linear(_WIDTH, classes)))
    return chain(layers)


def _patch_side(height: int, width: int) -> int:
    for side in _PATCH_SIDES:
        fits = height % side == 0 and width % side == 0
        if fits and height * width // side**2 >= _FEWEST_PATCHES:
            return side
    return 1
