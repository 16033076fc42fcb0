"""Plain stacks of 3x3 convolutions: VGG11 (001 App. B.2) and CNN6 (002 App. E)."""

from torch import nn

from curvbound.networks.shapes import Shape, Window, chain, image_shape, output_sides

__all__ = ["cnn6", "vgg11"]

# Filters per convolution, grouped by what lies between two max-pools.
_VGG11 = ((64,), (128,), (256, 256), (512, 512), (512, 512))
_CNN6 = ((64, 64), (128, 128), (192, 192))


def vgg11(name: str, input_shape: Shape, classes: int) -> nn.Sequential:
    """VGG11 without batch normalisation and with one linear layer as head.

    32x32 images leave 512 features, the 512 -> classes head of 001; larger ones leave more.
    """
    channels, height, width = image_shape(name, input_shape)
    rows, columns = output_sides(name, (height, width), [Window(2, 2)] * len(_VGG11))
    layers = _convolutions(channels, _VGG11, last_pool=True)
    layers.append(("flatten", nn.Flatten()))
    layers.append(("fc1", nn.Linear(_VGG11[-1][-1] * rows * columns, classes)))
    return chain(layers)


def cnn6(name: str, input_shape: Shape, classes: int) -> nn.Sequential:
    """The plain CNN of 002: six convolutions, global average pool, linear classifier.

    With biases everywhere it has 815,434 parameters for CIFAR-10.
    """
    channels, height, width = image_shape(name, input_shape)
    output_sides(name, (height, width), [Window(2, 2)] * (len(_CNN6) - 1))
    layers = _convolutions(channels, _CNN6, last_pool=False)
    layers += [("avgpool", nn.AdaptiveAvgPool2d(1)), ("flatten", nn.Flatten())]
    layers.append(("fc1", nn.Linear(_CNN6[-1][-1], classes)))
    return chain(layers)


def _convolutions(
    channels: int, groups: tuple[tuple[int, ...], ...], *, last_pool: bool
) -> list[tuple[str, nn.Module]]:
    layers: list[tuple[str, nn.Module]] = []
    i = 0
    for group, filters_of_group in enumerate(groups, start=1):
        for filters in filters_of_group:
            i += 1
            layers.append((f"conv{i}", nn.Conv2d(channels, filters, 3, padding=1)))
            layers.append((f"relu{i}", nn.ReLU()))
            channels = filters
        if last_pool or group < len(groups):
            layers.append((f"maxpool{group}", nn.MaxPool2d(2)))
    return layers
