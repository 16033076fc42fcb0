"""DenseNet-BC with growth rate 12 and depth 100 (002 App. E)."""

import torch
from torch import Tensor, nn

from curvbound.networks.shapes import Shape, Window, chain, image_shape, output_sides

__all__ = ["densenet_bc"]

_GROWTH = 12
_DEPTH = 100
_BLOCKS = 3
# A block's layer is two convolutions deep; stem, two transitions and classifier make the other 4.
_LAYERS_PER_BLOCK = (_DEPTH - 4) // (2 * _BLOCKS)


class _DenseLayer(nn.Module):
    """Bottleneck layer whose new channels are put beside its input."""

    def __init__(self, fan_in: int):
        super().__init__()
        inner = 4 * _GROWTH
        self.body = chain(
            [
                ("bn1", nn.BatchNorm2d(fan_in)),
                ("relu1", nn.ReLU()),
                ("conv1", nn.Conv2d(fan_in, inner, 1, bias=False)),
                ("bn2", nn.BatchNorm2d(inner)),
                ("relu2", nn.ReLU()),
                ("conv2", nn.Conv2d(inner, _GROWTH, 3, padding=1, bias=False)),
            ]
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.body(x)], dim=1)


def densenet_bc(name: str, input_shape: Shape, classes: int) -> nn.Sequential:
    """Three dense blocks with halving of channels and image in between; 769,162 on CIFAR-10."""
    channels, height, width = image_shape(name, input_shape)
    output_sides(name, (height, width), [Window(2, 2)] * (_BLOCKS - 1))
    features = 2 * _GROWTH
    layers: list[tuple[str, nn.Module]] = [
        ("conv1", nn.Conv2d(channels, features, 3, padding=1, bias=False))
    ]
    for i in range(1, _BLOCKS + 1):
        block = [(f"layer{j + 1}", features + j * _GROWTH) for j in range(_LAYERS_PER_BLOCK)]
        layers.append((f"block{i}", chain((key, _DenseLayer(size)) for key, size in block)))
        features += _LAYERS_PER_BLOCK * _GROWTH
        if i < _BLOCKS:
            layers.append((f"transition{i}", _transition(features)))
            features //= 2
    layers += [
        ("bn", nn.BatchNorm2d(features)),
        ("relu", nn.ReLU()),
        ("avgpool", nn.AdaptiveAvgPool2d(1)),
        ("flatten", nn.Flatten()),
        ("fc", nn.Linear(features, classes)),
    ]
    return chain(layers)


def _transition(features: int) -> nn.Sequential:
    return chain(
        [
            ("bn", nn.BatchNorm2d(features)),
            ("relu", nn.ReLU()),
            ("conv", nn.Conv2d(features, features // 2, 1, bias=False)),
            ("avgpool", nn.AvgPool2d(2)),
        ]
    )
