"""A network made ready for a certificate: every number in it is a parameter or a constant."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from curvbound.errors import CurvboundError

__all__ = ["Prepared", "prepare"]


@dataclass(frozen=True)
class Prepared:
    """A private copy of the user's network, and where it started.

    Attributes:
        model: Copy in evaluation mode, BatchNorm turned into affine maps, without gradients left.
        trained: The trained parameters by name.
        start: The prior mean by name, for the same parameters.
        converted: Names of the BatchNorm layers that were turned into affine maps.
    """

    model: nn.Module
    trained: dict[str, Tensor]
    start: dict[str, Tensor]
    converted: tuple[str, ...]


def prepare(model: nn.Module, start: Mapping[str, Tensor] | nn.Module, what: str) -> Prepared:
    """Copy ``model`` and bring it and the network it started from into certifiable form.

    An eval-mode BatchNorm is a per-channel affine map. Its running statistics were computed from
    the data, so the scale and shift of that map join the parameters, with those of the starting
    network as prior mean (CERT-7). Frozen parameters and remaining buffers must not have changed:
    they are constants that were fixed before the data.

    Args:
        model: The trained network; it is not touched.
        start: State dict (or network) at the prior mean.
        what: What to call ``start`` in messages, e.g. "the initialisation".
    """
    if not isinstance(model, nn.Module):
        raise CurvboundError(f"The model must be a torch.nn.Module, not {type(model).__name__}.")
    origin = copy.deepcopy(model)
    _load(origin, start.state_dict() if isinstance(start, nn.Module) else start, what)
    ours, converted = _affine_copy(model)
    theirs, _ = _affine_copy(origin)
    _require_constants(ours, theirs, what)
    trained = {n: p.detach() for n, p in ours.named_parameters() if p.requires_grad}
    if not trained:
        raise CurvboundError("The model has no trainable parameter: there is nothing to certify.")
    return Prepared(
        ours, trained, {n: dict(theirs.named_parameters())[n].detach() for n in trained}, converted
    )


def _load(model: nn.Module, state: Any, what: str) -> None:
    if not isinstance(state, Mapping):
        raise CurvboundError(
            f"{what.capitalize()} must be a state dict or a network, not {type(state).__name__}."
        )
    own = model.state_dict()
    for name, tensor in state.items():
        if not isinstance(tensor, Tensor):
            raise CurvboundError(f"In {what}, '{name}' is not a tensor: pass a state dict.")
    for name in [*own, *state]:
        if name not in own or name not in state or own[name].shape != state[name].shape:
            raise CurvboundError(
                f"{what.capitalize()} belongs to another architecture: '{name}' is missing on one "
                "side or has another shape."
            )
    for name, tensor in state.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise CurvboundError(f"{what.capitalize()} has NaN or infinite values in '{name}'.")
    model.load_state_dict(dict(state))


def _affine_copy(model: nn.Module) -> tuple[nn.Module, tuple[str, ...]]:
    copied = copy.deepcopy(model).eval()
    converted = []
    for name, module in list(copied.named_modules()):
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            if module.running_mean is None or module.running_var is None:
                raise CurvboundError(
                    f"The BatchNorm '{name}' has no running statistics, so its outputs depend on "
                    "the batch: train it with track_running_stats=True."
                )
            _replace(copied, name, _as_affine(module))
            converted.append(name)
    return copied, tuple(converted)


def _as_affine(norm: nn.modules.batchnorm._BatchNorm) -> nn.Module:
    """The same map as a BatchNorm of statistics (0, 1), all of it in weight and bias."""
    assert norm.running_mean is not None  # checked by the caller
    assert norm.running_var is not None
    scale = (norm.running_var + norm.eps).rsqrt() * (1.0 if norm.weight is None else norm.weight)
    shift = (0.0 if norm.bias is None else norm.bias) - norm.running_mean * scale
    affine = type(norm)(norm.num_features, eps=0.0, affine=True).to(scale).eval()
    with torch.no_grad():
        affine.weight.copy_(scale)
        affine.bias.copy_(shift)
    return affine


def _replace(model: nn.Module, name: str, module: nn.Module) -> None:
    path, _, last = name.rpartition(".")
    if not name:
        raise CurvboundError(
            "The network is a single BatchNorm layer: there is nothing to certify."
        )
    setattr(model.get_submodule(path), last, module)


def _require_constants(ours: nn.Module, theirs: nn.Module, what: str) -> None:
    frozen = {n: p for n, p in ours.named_parameters() if not p.requires_grad}
    constants = {**frozen, **dict(ours.named_buffers())}
    others = {**dict(theirs.named_parameters()), **dict(theirs.named_buffers())}
    for name, tensor in constants.items():
        if not torch.equal(tensor, others[name]):
            kind = "frozen parameter" if name in frozen else "buffer"
            raise CurvboundError(
                f"The {kind} '{name}' differs between the trained network and {what}: it depends "
                "on the data and cannot be certified; make it trainable or keep it fixed."
            )
