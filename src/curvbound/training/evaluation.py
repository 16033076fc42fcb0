"""Loss and error of a network on data, streamed."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from curvbound.errors import CurvboundError
from curvbound.training.batches import cast_inputs, checked_pair, is_loader

__all__ = ["Evaluation", "evaluate", "evaluate_weights", "modes_restored", "place"]

_BATCH = 512


class Evaluation(NamedTuple):
    """Mean cross-entropy and fraction of wrongly classified examples."""

    loss: float
    error: float


def evaluate(model: nn.Module, data: Any) -> Evaluation:
    """Mean cross-entropy and error rate of a network in evaluation mode.

    Args:
        model: Gives one logit per class; left in the mode it was in.
        data: A pair (inputs, targets), Examples, or a loader of such pairs.

    >>> model = nn.Linear(2, 2, bias=False)
    >>> _ = nn.init.eye_(model.weight)
    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> evaluate(model, (x, torch.tensor([0, 0]))).error
    0.5
    """
    device, dtype = place(model)
    loss, wrong, count = 0.0, 0, 0
    with modes_restored(model), torch.no_grad():
        model.eval()
        for inputs, targets in _stream(data):
            logits = model(cast_inputs(inputs, device, dtype))
            check_logits(logits, targets)
            targets = targets.to(device)
            loss += float(functional.cross_entropy(logits, targets, reduction="sum").double())
            wrong += int((logits.argmax(1) != targets).sum())
            count += len(targets)
    if count == 0:
        raise CurvboundError("There are no examples to evaluate on: the loader has no batches.")
    return Evaluation(loss / count, wrong / count)


def evaluate_weights(model: nn.Module, weights: Mapping[str, Tensor], data: Any) -> Evaluation:
    """`evaluate` a network with other weights than it has, which it keeps."""
    own = {name: value.detach().clone() for name, value in model.state_dict().items()}
    model.load_state_dict(weights)
    try:
        return evaluate(model, data)
    finally:
        model.load_state_dict(own)


def _stream(data: Any) -> Iterator[tuple[Tensor, Tensor]]:
    if is_loader(data):
        for batch in data:
            yield checked_pair(batch, "evaluation")
    else:
        inputs, targets = checked_pair(data, "evaluation")
        yield from zip(torch.split(inputs, _BATCH), torch.split(targets, _BATCH), strict=True)


def check_logits(logits: Any, targets: Tensor) -> None:
    """Refuse outputs that are not one logit per class, and labels without a logit."""
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != len(targets):
        shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise CurvboundError(
            f"The network must give one row of logits per example, but for {len(targets)} "
            f"examples it gave {shape}."
        )
    largest = int(targets.max())
    if largest >= logits.shape[1]:
        raise CurvboundError(
            f"The targets go up to class {largest}, but the network has {logits.shape[1]} outputs "
            f"(classes 0 to {logits.shape[1] - 1}): build it with classes={largest + 1}."
        )


def place(model: nn.Module) -> tuple[torch.device, torch.dtype]:
    """Device and floating-point type of a network's first parameter."""
    for parameter in model.parameters():
        return parameter.device, parameter.dtype
    raise CurvboundError("The network has no parameters.")


@contextmanager
def modes_restored(model: nn.Module) -> Iterator[None]:
    """Give every module of a network back its own training or evaluation mode."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
