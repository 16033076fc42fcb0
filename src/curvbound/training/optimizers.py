"""From a recipe to a torch optimiser."""

import difflib
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.nn import Parameter
from torch.optim import Optimizer

from curvbound.errors import CurvboundError

__all__ = ["make_optimizer", "resolve_optimizer"]


def resolve_optimizer(optimizer: str | Callable[..., Any]) -> Callable[..., Any]:
    """The optimiser class that a name such as "sgd" or "AdamW" means, or the callable itself."""
    if not isinstance(optimizer, str):
        return optimizer
    known = {
        name.lower(): found
        for name, found in vars(torch.optim).items()
        if isinstance(found, type) and issubclass(found, Optimizer) and found is not Optimizer
    }
    if optimizer.lower() not in known:
        close = difflib.get_close_matches(optimizer.lower(), known, 1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise CurvboundError(
            f"There is no optimiser {optimizer!r}{hint}; known are {', '.join(sorted(known))}, "
            "or give any class or function of (parameters, lr)."
        )
    return known[optimizer.lower()]


def make_optimizer(
    optimizer: str | Callable[..., Any],
    parameters: Iterable[Parameter],
    *,
    lr: float,
    momentum: float,
    nesterov: bool,
    weight_decay: float,
) -> Optimizer:
    """Build the optimiser; options at zero are left to the optimiser's own defaults."""
    make = resolve_optimizer(optimizer)
    options = {"momentum": momentum, "nesterov": nesterov, "weight_decay": weight_decay}
    chosen = {name: value for name, value in options.items() if value}
    accepted = inspect.signature(make).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in accepted.values())
    for name in chosen:
        if name not in accepted and not takes_all:
            raise CurvboundError(
                f"The optimiser {getattr(make, '__name__', repr(make))} takes no {name}: "
                f"leave it out, or set {name}=0 to override the recipe's."
            )
    if isinstance(make, type) and "weight_decay" in accepted:
        # AdamW has a default of its own; a recipe's zero means none. A partial keeps its own.
        chosen["weight_decay"] = weight_decay
    built: Optimizer = make([p for p in parameters if p.requires_grad], lr=lr, **chosen)
    return built
