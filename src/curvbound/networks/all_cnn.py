"""All-CNN-C, the convolutional network of 004 Table 2."""

from typing import NamedTuple

from torch import nn

from curvbound.networks.shapes import Shape, Window, chain, image_shape, output_sides

__all__ = ["all_cnn_c"]


class _Convolution(NamedTuple):
    filters: int
    window: Window


_SAME = Window(3, 1, 1)
_HALVE = Window(3, 2, 1)
_BODY = (
    _Convolution(96, _SAME),
    _Convolution(96, _SAME),
    _Convolution(96, _HALVE),
    _Convolution(192, _SAME),
    _Convolution(192, _SAME),
    _Convolution(192, _HALVE),
    _Convolution(192, Window(3)),
    _Convolution(192, Window(1)),
)


def all_cnn_c(name: str, input_shape: Shape, classes: int) -> nn.Sequential:
    """Nine convolutions with biases, then the average over positions: no dense layer.

    1,387,108 parameters for CIFAR-100 (004-E8). Dropout is left out, and so is a ReLU on the
    class maps: with small initial weights it would leave about half of the classes without any
    gradient.
    """
    channels, height, width = image_shape(name, input_shape)
    output_sides(name, (height, width), [layer.window for layer in _BODY])
    layers: list[tuple[str, nn.Module]] = []
    for i, (filters, window) in enumerate(_BODY, start=1):
        convolution = nn.Conv2d(channels, filters, *window)
        layers += [(f"conv{i}", convolution), (f"relu{i}", nn.ReLU())]
        channels = filters
    layers.append((f"conv{len(_BODY) + 1}", nn.Conv2d(channels, classes, 1)))
    layers += [("avgpool", nn.AdaptiveAvgPool2d(1)), ("flatten", nn.Flatten())]
    return chain(layers)
