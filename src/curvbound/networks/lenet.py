"""LeNet5 and its variants (001 Tables 4, 5) and the small MNIST network of 003."""

import itertools
import re

from torch import nn

from curvbound.errors import CurvboundError
from curvbound.networks.shapes import Shape, Window, chain, image_shape, output_sides

__all__ = ["lenet5", "mnist_cnn"]

_NAME = re.compile(
    r"LeNet5(?:-fc1-(?P<fc1>[1-9][0-9]{0,6}))?(?:-conv2-(?P<conv2>[1-9][0-9]{0,6}))?(?P<norm>-BN|-pool-BN)?"
)
# Two times: 5x5 convolution without padding, 2x2 pooling.
_WINDOWS = (Window(5), Window(2, 2)) * 2


def lenet5(name: str, input_shape: Shape, classes: int) -> nn.Sequential:
    """LeNet5 of 001 Table 4: 6 and 16 filters of 5x5, then 120 and 84 neurons.

    ``LeNet5-fc1-80`` and ``LeNet5-conv2-25`` change the size of one layer (001 App. B.2).
    ``LeNet5-BN`` puts batch normalisation between ReLU and max-pool, as 001 Table 5 prints it;
    ``LeNet5-pool-BN`` puts it after the max-pool, so that every layer's input is centred, which
    001 Table 8 needs (001-E19). After a dense layer the two orders agree. Batch normalisation
    has no learnable parameters.

    Raises:
        CurvboundError: If the name is none of these, or the images are too small.
    """
    fc1, conv2, norm = _variant(name)
    channels, height, width = image_shape(name, input_shape)
    rows, columns = output_sides(name, (height, width), _WINDOWS)
    layers: list[tuple[str, nn.Module]] = []
    for i, (fan_in, fan_out) in enumerate(((channels, 6), (6, conv2)), start=1):
        layers += [(f"conv{i}", nn.Conv2d(fan_in, fan_out, 5)), (f"relu{i}", nn.ReLU())]
        layers += _pool_and_norm(i, fan_out, norm)
    layers.append(("flatten", nn.Flatten()))
    sizes = (conv2 * rows * columns, fc1, 84)
    for i, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes), start=1):
        layers += [(f"fc{i}", nn.Linear(fan_in, fan_out)), (f"relu{i + 2}", nn.ReLU())]
        if norm:
            layers.append((f"bn{i + 2}", nn.BatchNorm1d(fan_out, affine=False)))
    layers.append(("fc3", nn.Linear(84, classes)))
    return chain(layers)


def _variant(name: str) -> tuple[int, int, str]:
    """Neurons of fc1, filters of conv2 and the suffix for batch normalisation."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise CurvboundError(
            f"{name!r} is not a LeNet5: write LeNet5, then where wanted -fc1-n and -conv2-n with "
            f"n from 1 to 9999999, then -BN or -pool-BN."
        )
    return int(match["fc1"] or 120), int(match["conv2"] or 16), match["norm"] or ""


def _pool_and_norm(i: int, channels: int, norm: str) -> list[tuple[str, nn.Module]]:
    pool = (f"maxpool{i}", nn.MaxPool2d(2))
    if not norm:
        return [pool]
    batch_norm = (f"bn{i}", nn.BatchNorm2d(channels, affine=False))
    return [pool, batch_norm] if norm == "-pool-BN" else [batch_norm, pool]


def mnist_cnn(name: str, input_shape: Shape, classes: int) -> nn.Sequential:
    """The MNIST example network that 003 section 7 trains, without its dropout.

    Filters 10 and 20 of 5x5, each followed by 2x2 max-pool and ReLU, then 50 neurons: 21,840
    parameters on MNIST. It is the version of the example of the paper's time.
    """
    channels, height, width = image_shape(name, input_shape)
    rows, columns = output_sides(name, (height, width), _WINDOWS)
    return chain(
        [
            ("conv1", nn.Conv2d(channels, 10, 5)),
            ("maxpool1", nn.MaxPool2d(2)),
            ("relu1", nn.ReLU()),
            ("conv2", nn.Conv2d(10, 20, 5)),
            ("maxpool2", nn.MaxPool2d(2)),
            ("relu2", nn.ReLU()),
            ("flatten", nn.Flatten()),
            ("fc1", nn.Linear(20 * rows * columns, 50)),
            ("relu3", nn.ReLU()),
            ("fc2", nn.Linear(50, classes)),
        ]
    )
