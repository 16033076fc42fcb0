"""Networks by name."""

import difflib
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypedDict, cast

import torch
from torch import nn

from curvbound.errors import CurvboundError
from curvbound.networks.all_cnn import all_cnn_c
from curvbound.networks.attention import attention_small
from curvbound.networks.dense import dense, dense_by_name
from curvbound.networks.densenet import densenet_bc
from curvbound.networks.initialise import check_initialisation, initialise
from curvbound.networks.lenet import lenet5, mnist_cnn
from curvbound.networks.resnet import preresnet, resnet, wide_resnet
from curvbound.networks.shapes import Shape
from curvbound.networks.toy import toy
from curvbound.networks.vgg import cnn6, vgg11

__all__ = ["Specification", "build", "names", "specification"]

_ATTRIBUTE = "curvbound_spec"


class Specification(TypedDict):
    """How a network was built: ``build(**specification(model))`` gives its first weights again."""

    name: str
    input_shape: list[int]
    classes: int
    init: str
    seed: int


@dataclass(frozen=True)
class _Family:
    """Networks with one constructor.

    Attributes:
        pattern: What their names look like; the constructor checks the details.
        construct: Makes the network from name, input shape and number of classes.
        members: Listed names, each with a description. The family may have more.
    """

    pattern: str
    construct: Callable[[str, Shape, int], nn.Module]
    members: dict[str, str]


def _mlp_9960(name: str, input_shape: Shape, classes: int) -> nn.Module:
    return dense(input_shape, classes, (10, 100))


_FAMILIES = (
    _Family(
        r"[FTR]-.*",
        dense_by_name,
        {
            "F-100": "dense, 100 hidden neurons (004); any F-n, and T- or R- for F- (001)",
            "F-600": "dense, 600 hidden neurons (001)",
            "F-1200": "dense, 1200 hidden neurons (001)",
            "F-200^2": "dense, hidden layers 200, 200 (000, 001); any F-n^m",
            "F-300^2": "dense, hidden layers 300, 300 (000, 001)",
            "F-600^2": "dense, hidden layers 600, 600 (001)",
            "F-200^2-100": "dense, hidden layers 200, 200, 100 (001); any F-n^m-k^l-...",
            "F-200^2-BN": "F-200^2 with batch normalisation after each ReLU (001); any F-...-BN",
        },
    ),
    _Family(r"MLP-9960", _mlp_9960, {"MLP-9960": "dense, hidden layers 10, 100 (004 Table 1)"}),
    _Family(
        r"LeNet5(?:-.*)?",
        lenet5,
        {
            "LeNet5": "convolutions 6, 16, dense layers 120, 84 (001 Table 4)",
            "LeNet5-fc1-80": "LeNet5 with 80 neurons in fc1 (001); any -fc1-n",
            "LeNet5-fc1-100": "LeNet5 with 100 neurons in fc1 (001)",
            "LeNet5-fc1-150": "LeNet5 with 150 neurons in fc1 (001)",
            "LeNet5-conv2-25": "LeNet5 with 25 filters in conv2 (001); any -conv2-n",
            "LeNet5-BN": "LeNet5, batch normalisation before each max-pool (001 Table 5)",
            "LeNet5-pool-BN": "LeNet5, batch normalisation after each max-pool (001 Table 8)",
        },
    ),
    _Family(
        r"MNIST-CNN",
        mnist_cnn,
        {"MNIST-CNN": "convolutions 10, 20, dense layer 50, no dropout (003 Figs. 3-6)"},
    ),
    _Family(r"VGG11", vgg11, {"VGG11": "8 convolutions, head 512 -> classes; init he (001)"}),
    _Family(
        r"CNN6", cnn6, {"CNN6": "6 convolutions of 64 to 192 filters, average pool; init he (002)"}
    ),
    _Family(
        r"All-CNN-C",
        all_cnn_c,
        {"All-CNN-C": "9 convolutions, nothing else; init he (004 Table 2)"},
    ),
    _Family(
        r"ResNet-.*",
        resnet,
        {"ResNet-20": "residual, shortcuts without parameters (002); any ResNet-(6n+2)"},
    ),
    _Family(
        r"PreResNet-.*",
        preresnet,
        {
            "PreResNet-20": "pre-activated bottlenecks, small; any PreResNet-(9n+2)",
            "PreResNet-164": "pre-activated bottlenecks (004 Table 4)",
        },
    ),
    _Family(
        r"WRN-.*",
        wide_resnet,
        {
            "WRN-28-2": "wide residual, depth 28, factor 2 (002); any WRN-(6n+4)-k",
            "WRN-28-10": "wide residual, depth 28, factor 10 (004 Table 5)",
            "WRN-58-3": "wide residual, depth 58, factor 3 (003 Fig. 7)",
        },
    ),
    _Family(
        r"DenseNet-BC-k12",
        densenet_bc,
        {"DenseNet-BC-k12": "densely connected, depth 100, growth 12 (002)"},
    ),
    _Family(
        r"Toy", toy, {"Toy": "5 sigmoid layers that share 2 parameters, 2-d inputs (003 Fig. 1)"}
    ),
    _Family(
        r"Attention-small",
        attention_small,
        {"Attention-small": "2 attention blocks of width 64 on patches or sequences"},
    ),
)


def names() -> dict[str, str]:
    """Networks that `build` knows, each with a description of one line and its paper.

    Families such as F-n^m have more members than are listed; their descriptions say which.

    >>> names()["LeNet5"]
    'convolutions 6, 16, dense layers 120, 84 (001 Table 4)'
    """
    return {name: text for family in _FAMILIES for name, text in family.members.items()}


def build(
    name: str, input_shape: Sequence[int], classes: int, *, init: str = "torch", seed: int = 0
) -> nn.Module:
    """A network of the papers with freshly drawn weights: float32, on the CPU, in training mode.

    The draw depends on ``init`` and ``seed`` alone and leaves the global random state as it was.

    Args:
        name: One of `names`, or another member of a family described there.
        input_shape: Shape of one example, such as ``(1, 28, 28)``; dense networks flatten it.
        classes: Number of logits, at least 2.
        init: One of `initialisations`.
        seed: Seed of the initial weights.

    Returns:
        The network; `specification` recovers how it was built.

    Raises:
        CurvboundError: If there is no such network, or it cannot take such inputs.

    >>> sum(p.numel() for p in build("F-100", (1, 28, 28), 10).parameters())
    79510
    """
    shape = _checked_shape(input_shape)
    classes, seed = operator.index(classes), operator.index(seed)
    if classes < 2:
        raise CurvboundError(f"A classifier needs at least 2 classes, not {classes}.")
    check_initialisation(init, seed)
    # Made without storage, so that the layers' own initialisation costs and draws nothing.
    with torch.device("meta"):
        model = _construct(name, shape, classes)
    model = model.to(torch.float32).to_empty(device="cpu")
    initialise(model, init, seed)
    built = Specification(name=name, input_shape=list(shape), classes=classes, init=init, seed=seed)
    setattr(model, _ATTRIBUTE, built)
    return model


def specification(model: nn.Module) -> Specification | None:
    """How `build` made ``model``, or ``None`` for a network from elsewhere.

    >>> specification(build("F-20", (64,), 10, seed=3))["seed"]
    3
    """
    return cast(Specification | None, getattr(model, _ATTRIBUTE, None))


def _construct(name: str, shape: Shape, classes: int) -> nn.Module:
    for family in _FAMILIES:
        if re.fullmatch(family.pattern, name):
            return family.construct(name, shape, classes)
    by_lower_case = {known.lower(): known for known in names()}
    close = difflib.get_close_matches(name.lower(), by_lower_case, n=3, cutoff=0.5)
    meant = " or ".join(by_lower_case[key] for key in close)
    raise CurvboundError(
        f"There is no network {name!r}{f' (did you mean {meant}?)' if close else ''}: "
        f"curvbound.networks.names() lists them all."
    )


def _checked_shape(input_shape: Sequence[int]) -> Shape:
    try:
        shape = tuple(operator.index(side) for side in input_shape)
    except TypeError:
        shape = ()
    if not shape or min(shape) < 1:
        raise CurvboundError(
            f"The input shape {input_shape!r} is not a sequence of positive whole numbers: give "
            f"the shape of one example without the batch, such as (1, 28, 28)."
        )
    return shape
