"""What can be said about a network before training begins, instead of in the middle of it."""

import hashlib
import re
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import is_lazy

from curvbound.errors import CurvboundError
from curvbound.training.batches import cast_inputs, checked_pair, is_loader
from curvbound.training.evaluation import check_logits, modes_restored, place

__all__ = ["check_batch_norm", "check_model", "describe_network", "probe"]


def check_model(model: nn.Module) -> None:
    """Refuse a network that cannot be trained or saved."""
    for name, value in model.state_dict(keep_vars=True).items():
        if not isinstance(value, Tensor):
            raise CurvboundError(
                f"The network's state holds {name!r}, which is not a tensor and cannot be saved."
            )
        if is_lazy(value):
            raise CurvboundError(
                f"The network's {name} has no shape yet: call the network on one batch first."
            )
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise CurvboundError(f"The network's {name} holds NaN or infinity: initialise it anew.")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise CurvboundError("The network has no parameters that require gradients.")


def check_batch_norm(model: nn.Module, smallest_batch: int) -> None:
    """Refuse a last batch of one example, which has no batch statistics."""
    if smallest_batch == 1 and any(isinstance(module, _BatchNorm) for module in model.modules()):
        raise CurvboundError(
            "The network has batch normalisation, but the last batch of an epoch would hold a "
            "single example, which has no variance: choose another batch size."
        )


def probe(model: nn.Module, data: Any, what: str) -> None:
    """Run the network on two examples in evaluation mode to see that it fits the data."""
    pair = next(iter(data), None) if is_loader(data) else data
    if pair is None:
        raise CurvboundError(f"The {what} loader has no batches: give it examples.")
    inputs, targets = checked_pair(pair, what)
    with modes_restored(model), torch.no_grad():
        model.eval()
        try:
            logits = model(cast_inputs(inputs[:2], *place(model)))
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
            raise CurvboundError(
                f"The network cannot take {what} inputs of shape {tuple(inputs.shape[1:])} and "
                f"type {inputs.dtype} ({reason}): build it for that shape."
            ) from error
    check_logits(logits, targets[:2])
    largest = int(targets.max())
    if largest >= logits.shape[1]:
        check_logits(logits, torch.full_like(targets[:2], largest))
    if not bool(torch.isfinite(logits).all()):
        raise CurvboundError(
            f"The network gives NaN or infinite outputs on the {what} data before training: "
            "check its initialisation and the scale of the inputs."
        )


def describe_network(model: nn.Module) -> dict[str, Any]:
    """What must agree between two networks for one to continue the other's training."""
    frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
    tensors = {
        name: f"{'x'.join(map(str, tensor.shape)) or 'scalar'} "
        f"{str(tensor.dtype).removeprefix('torch.')}{' frozen' if name in frozen else ''}"
        for name, tensor in model.state_dict().items()
    }
    printed = re.sub(r" at 0x[0-9a-fA-F]+", "", repr(model))
    return {
        "spec": getattr(model, "curvbound_spec", None),
        "tensors": tensors,
        "modules_sha256": hashlib.sha256(printed.encode()).hexdigest(),
    }
