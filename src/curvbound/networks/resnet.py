"""Residual networks for small images: ResNet (002), PreResNet and WRN (002, 003, 004)."""

import re
from collections.abc import Callable
from typing import TypeAlias

from torch import Tensor, nn
from torch.nn import functional

from curvbound.errors import CurvboundError
from curvbound.networks.shapes import Shape, chain, image_shape

__all__ = ["preresnet", "resnet", "wide_resnet"]

_Block: TypeAlias = Callable[[int, int, int], nn.Module]
_MOST_LAYERS = 2000


class _Subsample(nn.Module):
    """Shortcut without parameters (option A): every ``stride``-th pixel, new channels zero."""

    def __init__(self, stride: int, new_channels: int):
        super().__init__()
        self.stride = stride
        self.new_channels = new_channels

    def forward(self, x: Tensor) -> Tensor:
        kept = x[:, :, :: self.stride, :: self.stride]
        before = self.new_channels // 2
        return functional.pad(kept, (0, 0, 0, 0, before, self.new_channels - before))


class _Residual(nn.Module):
    """``shortcut(x) + body(x)``, followed by ``after``."""

    def __init__(self, body: nn.Module, shortcut: nn.Module, after: nn.Module):
        super().__init__()
        self.body = body
        self.shortcut = shortcut
        self.after = after

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.after(self.shortcut(x) + self.body(x))
        return output


def resnet(name: str, input_shape: Shape, classes: int) -> nn.Sequential:
    """ResNet-d with d = 6n + 2 layers: basic blocks of 16, 32, 64 filters, option A shortcuts.

    ResNet-20 has 269,722 parameters for CIFAR-10.
    """
    n = _blocks_per_stage(name, r"ResNet-(?P<depth>[0-9]{1,4})", 6, 2)
    channels, _, _ = image_shape(name, input_shape)
    head = _head(64, classes)
    stem = [("conv1", _conv(channels, 16, 3)), ("bn1", nn.BatchNorm2d(16)), ("relu1", nn.ReLU())]
    return chain([*stem, *_stages(_basic_block, 16, (16, 32, 64), n), *head])


def _basic_block(fan_in: int, fan_out: int, stride: int) -> nn.Module:
    body = chain(
        [
            ("conv1", _conv(fan_in, fan_out, 3, stride)),
            ("bn1", nn.BatchNorm2d(fan_out)),
            ("relu1", nn.ReLU()),
            ("conv2", _conv(fan_out, fan_out, 3)),
            ("bn2", nn.BatchNorm2d(fan_out)),
        ]
    )
    same = stride == 1 and fan_in == fan_out
    shortcut = nn.Identity() if same else _Subsample(stride, fan_out - fan_in)
    return _Residual(body, shortcut, nn.ReLU())


def preresnet(name: str, input_shape: Shape, classes: int) -> nn.Sequential:
    """PreResNet-d with d = 9n + 2 layers: pre-activated bottleneck blocks.

    PreResNet-164 has 1,726,388 parameters for CIFAR-100 (004-E8): convolutions have no bias, and
    a block that changes the shape has a 1x1 convolution as shortcut.
    """
    n = _blocks_per_stage(name, r"PreResNet-(?P<depth>[0-9]{1,4})", 9, 2)
    channels, _, _ = image_shape(name, input_shape)
    stem = [("conv1", _conv(channels, 16, 3))]
    head = [("bn", nn.BatchNorm2d(256)), ("relu", nn.ReLU()), *_head(256, classes)]
    return chain([*stem, *_stages(_bottleneck, 16, (64, 128, 256), n), *head])


def _bottleneck(fan_in: int, fan_out: int, stride: int) -> nn.Module:
    inner = fan_out // 4
    body = chain(
        [
            ("bn1", nn.BatchNorm2d(fan_in)),
            ("relu1", nn.ReLU()),
            ("conv1", _conv(fan_in, inner, 1)),
            ("bn2", nn.BatchNorm2d(inner)),
            ("relu2", nn.ReLU()),
            ("conv2", _conv(inner, inner, 3, stride)),
            ("bn3", nn.BatchNorm2d(inner)),
            ("relu3", nn.ReLU()),
            ("conv3", _conv(inner, fan_out, 1)),
        ]
    )
    same = stride == 1 and fan_in == fan_out
    shortcut = nn.Identity() if same else _conv(fan_in, fan_out, 1, stride)
    return _Residual(body, shortcut, nn.Identity())


def wide_resnet(name: str, input_shape: Shape, classes: int) -> nn.Sequential:
    """WRN-d-k with d = 6n + 4 layers: pre-activated blocks of 16k, 32k, 64k filters, no dropout.

    Convolutions have biases, as the count 36,546,980 of 004 (WRN-28-10, CIFAR-100) requires
    (004-E8); the second convolution of a block takes the stride. Batch normalisation in training
    mode cancels these biases, so that the network of 002 without them learns the same functions.
    """
    n = _blocks_per_stage(name, r"WRN-(?P<depth>[0-9]{1,4})-[1-9][0-9]{0,2}", 6, 4)
    factor = int(name.rsplit("-", 1)[1])
    channels, _, _ = image_shape(name, input_shape)
    widths = (16 * factor, 32 * factor, 64 * factor)
    stem = [("conv1", _conv(channels, 16, 3, bias=True))]
    head = [("bn", nn.BatchNorm2d(widths[-1])), ("relu", nn.ReLU()), *_head(widths[-1], classes)]
    return chain([*stem, *_stages(_wide_block, 16, widths, n), *head])


def _wide_block(fan_in: int, fan_out: int, stride: int) -> nn.Module:
    body = chain(
        [
            ("bn1", nn.BatchNorm2d(fan_in)),
            ("relu1", nn.ReLU()),
            ("conv1", _conv(fan_in, fan_out, 3, bias=True)),
            ("bn2", nn.BatchNorm2d(fan_out)),
            ("relu2", nn.ReLU()),
            ("conv2", _conv(fan_out, fan_out, 3, stride, bias=True)),
        ]
    )
    same = stride == 1 and fan_in == fan_out
    shortcut = nn.Identity() if same else _conv(fan_in, fan_out, 1, stride, bias=True)
    return _Residual(body, shortcut, nn.Identity())


def _blocks_per_stage(name: str, pattern: str, per_block: int, rest: int) -> int:
    """Blocks in each of the three stages, from the depth in the name."""
    match = re.fullmatch(pattern, name)
    depth = int(match["depth"]) if match else 0
    blocks, left = divmod(depth - rest, per_block)
    if blocks < 1 or left or depth > _MOST_LAYERS:
        family = name.split("-")[0]
        form = f"{family}-d-k with a width factor k from 1 to 999 and" if family == "WRN" else ""
        raise CurvboundError(
            f"{name!r} cannot be built: write {form or f'{family}-d with'} a depth d of "
            f"{per_block}n+{rest}, such as {per_block + rest}, {2 * per_block + rest} or "
            f"{3 * per_block + rest}, up to {_MOST_LAYERS}."
        )
    return blocks


def _stages(
    block: _Block, fan_in: int, widths: tuple[int, ...], n: int
) -> list[tuple[str, nn.Module]]:
    """Stages of ``n`` blocks; each stage after the first halves the image in its first block."""
    stages: list[tuple[str, nn.Module]] = []
    for i, width in enumerate(widths, start=1):
        blocks: list[tuple[str, nn.Module]] = []
        for j in range(1, n + 1):
            blocks.append((f"block{j}", block(fan_in, width, 2 if i > 1 and j == 1 else 1)))
            fan_in = width
        stages.append((f"stage{i}", chain(blocks)))
    return stages


def _head(features: int, classes: int) -> list[tuple[str, nn.Module]]:
    return [
        ("avgpool", nn.AdaptiveAvgPool2d(1)),
        ("flatten", nn.Flatten()),
        ("fc", nn.Linear(features, classes)),
    ]


def _conv(fan_in: int, fan_out: int, size: int, stride: int = 1, bias: bool = False) -> nn.Conv2d:
    return nn.Conv2d(fan_in, fan_out, size, stride, padding=size // 2, bias=bias)
