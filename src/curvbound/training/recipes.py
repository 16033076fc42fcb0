"""Training recipes: every paper's settings by name, and fast ones that reach the same error."""

import dataclasses
import difflib
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from curvbound.errors import CurvboundError
from curvbound.training.augmentation import Augmentation, resolve_augmentation
from curvbound.training.optimizers import resolve_optimizer
from curvbound.training.schedules import resolve_schedule

__all__ = ["Recipe", "get_recipe", "recipes"]


@dataclass(frozen=True)
class Recipe:
    """How a network is trained; the loss is the mean cross-entropy.

    Attributes:
        name: What the recipe is called.
        description: What it is for, in one line.
        optimizer: A name of `torch.optim` in any case, a class, or a function of (parameters, lr).
        lr: Initial learning rate.
        batch_size: Examples per step; the last batch of an epoch may be smaller. Ignored when the
            data come as a loader, which has its own.
        epochs: Passes over the data (with `stop_error`: at most so many).
        schedule: A name, a function from progress in [0, 1) to a factor on `lr`, or a torch
            scheduler class (or `functools.partial` of one), stepped once an epoch.
        momentum: Momentum, for optimisers that have it.
        nesterov: Nesterov's form of momentum.
        weight_decay: The optimiser's weight decay; for SGD and Adam the gradient of
            `weight_decay / 2 * |w|^2` is added.
        augmentation: "crop-flip", a function of (inputs, generator), or None.
        label_smoothing: Label smoothing of the training loss.
        stop_error: Stop at the end of the first epoch whose weights have at most this error on the
            training data; None: train for all epochs.

    >>> get_recipe("001").replace(epochs=3).epochs
    3
    """

    name: str = "custom"
    description: str = ""
    optimizer: str | Callable[..., Any] = "sgd"
    lr: float = 0.01
    batch_size: int = 128
    epochs: int = 10
    schedule: str | Callable[..., Any] = "constant"
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    augmentation: str | Augmentation | None = None
    label_smoothing: float = 0.0
    stop_error: float | None = None

    def __post_init__(self) -> None:
        resolve_optimizer(self.optimizer)
        resolve_schedule(self.schedule)
        resolve_augmentation(self.augmentation)
        for name in ("lr", "momentum", "weight_decay", "label_smoothing"):
            if not isinstance(getattr(self, name), int | float):
                raise CurvboundError(f"{name} must be a number, not {getattr(self, name)!r}.")
        for name in ("batch_size", "epochs"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise CurvboundError(f"{name} must be a whole number of at least 1, not {value!r}.")
        _require("lr", self.lr, 0.0 < self.lr < math.inf, "positive")
        _require("momentum", self.momentum, 0.0 <= self.momentum < 1.0, "in [0, 1)")
        _require("weight_decay", self.weight_decay, 0.0 <= self.weight_decay < math.inf, ">= 0")
        _require(
            "label_smoothing", self.label_smoothing, 0 <= self.label_smoothing < 1, "in [0, 1)"
        )
        if self.stop_error is not None:
            _require("stop_error", self.stop_error, 0.0 <= self.stop_error < 1.0, "in [0, 1)")
        if self.nesterov and self.momentum == 0:
            raise CurvboundError("nesterov=True needs a momentum above 0.")

    def replace(self, **changes: Any) -> "Recipe":
        """This recipe with some settings changed."""
        known = [field.name for field in dataclasses.fields(self)]
        for name in changes:
            if name not in known:
                raise CurvboundError(
                    f"A recipe has no setting {name!r}{_suggest(name, known)}; "
                    f"it has {', '.join(known)}."
                )
        return dataclasses.replace(self, **changes)

    def settings(self) -> dict[str, Any]:
        """Every setting in a form that JSON can hold; functions by their qualified names."""
        return {field.name: _plain(getattr(self, field.name)) for field in dataclasses.fields(self)}


def recipes() -> dict[str, Recipe]:
    """All named recipes; each says in `description` what it is for."""
    return dict(_RECIPES)


def get_recipe(recipe: str | Recipe) -> Recipe:
    """The recipe of this name, or the recipe itself."""
    if isinstance(recipe, Recipe):
        return recipe
    if recipe not in _RECIPES:
        raise CurvboundError(
            f"There is no recipe {recipe!r}{_suggest(recipe, list(_RECIPES))}; "
            f"known are {', '.join(_RECIPES)}."
        )
    return _RECIPES[recipe]


def _require(name: str, value: object, holds: bool, condition: str) -> None:
    if not holds:
        raise CurvboundError(f"{name} must be {condition}, not {value!r}.")


def _suggest(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _plain(value: Any) -> Any:
    if isinstance(value, functools.partial):
        given = [repr(argument) for argument in value.args]
        given += [f"{name}={argument!r}" for name, argument in sorted(value.keywords.items())]
        return f"{_plain(value.func)}({', '.join(given)})"
    if callable(value):
        kind = value if hasattr(value, "__qualname__") else type(value)
        return f"{kind.__module__}.{kind.__qualname__}"
    return value


def _with_decays(base: Recipe) -> list[Recipe]:
    """004 section 5 compares gamma = 0, 1e-4, 5e-4, its penalty being gamma/2 |w|^2."""
    return [base] + [
        base.replace(
            name=f"{base.name}-wd{text}",
            description=f"{base.description}, weight decay {text}",
            weight_decay=float(text),
        )
        for text in ("1e-4", "5e-4")
    ]


_FAST = Recipe(
    "fast",
    "one-cycle SGD: dense nets to the papers' training error in a few epochs",
    lr=0.2,
    epochs=8,
    schedule="one-cycle",
    momentum=0.9,
    nesterov=True,
)
_SGD_001 = Recipe("001", "001: plain SGD for 1000 epochs", epochs=1000)
_CNN_002 = Recipe(
    "002-cnn6",
    "002 App.: the plain CNN on CIFAR, crops and flips, rate / 10 at half and three quarters",
    epochs=200,
    schedule="tenth-at-50-75",
    momentum=0.9,
    nesterov=True,
    weight_decay=1e-4,
    augmentation="crop-flip",
)
_MNIST_003 = Recipe(
    "003-mnist", "003 Figs 3, 5: SGD at rate 0.1 (epochs not given there)", lr=0.1, epochs=100
)
_MLP_004 = Recipe(
    "004-mlp",
    "004 Table 1: MLP on MNIST, linear-tail schedule",
    epochs=50,
    schedule="linear-tail",
    momentum=0.9,
)

_RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in [
        _FAST,
        _FAST.replace(
            name="fast-small",
            description="the same for some thousand examples: smaller batches, more epochs",
            lr=0.1,
            batch_size=32,
            epochs=30,
        ),
        _FAST.replace(
            name="fast-cnn",
            description="the same for convolutional nets, which need a lower rate",
            lr=0.05,
            epochs=15,
        ),
        _FAST.replace(
            name="near",
            description="two epochs at a low rate: near the initialisation, for certificates",
            lr=0.05,
            epochs=2,
        ),
        Recipe(
            "000",
            "000 section 5: to 100 % training accuracy (optimiser not given there)",
            momentum=0.9,
            epochs=1000,
            stop_error=0.0,
        ),
        _SGD_001,
        _SGD_001.replace(name="001-lr0.001", description="001: with rate 0.001", lr=1e-3),
        _SGD_001.replace(
            name="001-momentum",
            description="001: with momentum 0.9 and weight decay 5e-4",
            momentum=0.9,
            weight_decay=5e-4,
        ),
        _CNN_002,
        _CNN_002.replace(
            name="002-resnet20",
            description="002 App.: ResNet-20 as in its paper, 64000 steps on CIFAR",
            lr=0.1,
            epochs=164,
            nesterov=False,
        ),
        _CNN_002.replace(
            name="002-wrn",
            description="002 App.: wide residual networks as in their paper",
            lr=0.1,
            schedule="fifth-at-30-60-80",
            weight_decay=5e-4,
        ),
        _CNN_002.replace(
            name="002-densenet",
            description="002 App.: DenseNet-BC as in its paper",
            lr=0.1,
            batch_size=64,
            epochs=300,
        ),
        _MNIST_003,
        _MNIST_003.replace(
            name="003-cifar10", description="003 Figs 4, 6: SGD at rate 0.01", lr=0.01
        ),
        Recipe(
            "003-wrn",
            "003 Fig 7: WRN-58-3 on CIFAR by Adam",
            optimizer="adam",
            lr=1e-4,
            epochs=100,
        ),
        Recipe(
            "003-tiny-imagenet",
            "003 Fig 7: WRN-58-3 on Tiny ImageNet by SGD",
            batch_size=156,
            epochs=100,
        ),
        *_with_decays(_MLP_004),
        *_with_decays(
            _MLP_004.replace(
                name="004-cnn", description="004 Table 2: All-CNN-C on CIFAR-100", epochs=300
            )
        ),
        *_with_decays(
            _MLP_004.replace(
                name="004-preresnet",
                description="004 Table 4: PreResNet-164 (rate not given there)",
                lr=0.1,
                epochs=300,
                augmentation="crop-flip",
            )
        ),
        *_with_decays(
            _MLP_004.replace(
                name="004-wrn",
                description="004 Tables 5, 7: WRN-28-10 at the rate of Table 7",
                lr=0.1,
                epochs=300,
                augmentation="crop-flip",
            )
        ),
    ]
}
