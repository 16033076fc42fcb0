"""Where a forward pass multiplies activations with weights.

A *site* is one call of a dense layer, a convolution or a BatchNorm with fixed statistics whose
weight is a parameter, however the module that made the call is written. Derivatives can stop at a
site's output: the weight gradient is known from there, so it need not be formed to be
differentiated again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from curvbound.curvature.conv import Geometry, Switch, convolve
from curvbound.curvature.norm import Standardisation, standardise
from curvbound.curvature.relu import relu

__all__ = ["Dense", "LinearMap", "Site", "SiteRecorder"]


class LinearMap(Protocol):
    """What a site does: linear in (weight, bias) for fixed inputs."""

    def apply(self, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The output."""

    def transpose(self, gradient: Tensor, inputs: Tensor, weight: Tensor) -> Tensor:
        """The gradient with respect to the inputs, linear in the weight."""


@dataclass(frozen=True)
class Dense:
    """inputs W^T + b, over any leading positions."""

    def apply(self, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The output."""
        return functional.linear(inputs, weight, bias)

    def transpose(self, gradient: Tensor, inputs: Tensor, weight: Tensor) -> Tensor:
        """The gradient with respect to the inputs."""
        return gradient @ weight


_CONVOLUTIONS: dict[Callable[..., Any], int] = {torch.conv1d: 1, torch.conv2d: 2, torch.conv3d: 3}
_RELUS = (functional.relu, torch.relu, Tensor.relu)
_CONV_DEFAULTS = {"bias": None, "stride": 1, "padding": 0, "dilation": 1, "groups": 1}
_NORM_DEFAULTS = {
    "running_mean": None,
    "running_var": None,
    "weight": None,
    "bias": None,
    "training": False,
    "momentum": 0.1,
    "eps": 1e-5,
}


@dataclass(frozen=True)
class Site:
    """One multiplication of activations with a weight.

    Attributes:
        weight: Name of the weight.
        bias: Name of the bias, if it is one of the recorded parameters.
        inputs: The activations that were multiplied.
        output: Where the product sits in the autograd graph (it survives in-place changes).
        map: How they were multiplied.
    """

    weight: str
    bias: str | None
    inputs: Tensor
    output: GradientEdge
    map: LinearMap

    def forward_tangent(self, weight: Tensor, bias: Tensor | None) -> Tensor:
        """How the output changes with the weight and bias alone."""
        return self.map.apply(self.inputs.detach(), weight, bias)

    def backward_tangent(self, gradient: Tensor, weight: Tensor) -> Tensor:
        """How the gradient of the inputs changes with the weight alone."""
        return self.map.transpose(gradient, self.inputs.detach(), weight)


class SiteRecorder(TorchFunctionMode):
    """Records sites during a forward pass.

    The weights at sites are replaced by ``aliases``, separate leaves of the autograd graph, so that
    a weight that is also used elsewhere (a tied embedding) keeps its two roles apart.

    Args:
        leaves: The tensors that stand for the parameters in this forward pass.
        on: Told to convolutions (see :class:`~curvbound.curvature.conv.Switch`).
    """

    def __init__(self, leaves: Mapping[str, Tensor], on: Switch) -> None:
        super().__init__()
        self.sites: list[Site] = []
        self.aliases: dict[str, Tensor] = {}
        self._names = {id(leaf): name for name, leaf in leaves.items()}
        self._on = on

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is functional.linear:
            call = _bind(("input", "weight", "bias"), args, {"bias": None} | kwargs)
            if id(call["weight"]) in self._names:
                return self._site(call, Dense(), lambda x, w, b: functional.linear(x, w, b))
        elif func in _CONVOLUTIONS:
            call = _bind(("input", "weight", *_CONV_DEFAULTS), args, _CONV_DEFAULTS | kwargs)
            geometry = _geometry(call, _CONVOLUTIONS[func])
            if geometry is not None and id(call["weight"]) in self._names:
                return self._site(
                    call, geometry, lambda x, w, b: convolve(x, w, b, geometry, self._on)
                )
        elif func is functional.batch_norm:
            call = _bind(("input", *_NORM_DEFAULTS), args, _NORM_DEFAULTS | kwargs)
            if not call["training"] and id(call["weight"]) in self._names:
                fixed = Standardisation(call["running_mean"], call["running_var"], call["eps"])
                return self._site(
                    call, fixed, lambda x, w, b: standardise(x, w, b, fixed, self._on)
                )
        elif func in _RELUS and not kwargs.get("inplace", len(args) > 1 and args[1]):
            return relu(args[0] if args else kwargs["input"])
        return func(*args, **kwargs)

    def _site(
        self,
        call: Mapping[str, Any],
        action: LinearMap,
        run: Callable[[Tensor, Tensor, Tensor | None], Tensor],
    ) -> Tensor:
        # A bias that is not recorded (frozen, or computed) is a constant, or has a history of its
        # own. A recorded bias next to an unrecorded weight takes the general way.
        inputs, weight, bias = call["input"], call["weight"], call["bias"]
        bias_name = self._names.get(id(bias))
        output = run(inputs, self._alias(weight), self._alias(bias) if bias_name else bias)
        edge = get_gradient_edge(output)
        self.sites.append(Site(self._names[id(weight)], bias_name, inputs, edge, action))
        return output

    def _alias(self, leaf: Tensor) -> Tensor:
        return self.aliases.setdefault(self._names[id(leaf)], leaf.detach().requires_grad_())


def _bind(names: tuple[str, ...], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    return {**kwargs, **dict(zip(names, args, strict=False))}


def _geometry(call: Mapping[str, Any], dimensions: int) -> Geometry | None:
    """None for what takes the general way: automatic padding and inputs without a batch."""
    if isinstance(call["padding"], str) or call["input"].dim() != dimensions + 2:
        return None

    def spread(value: Any) -> tuple[int, ...]:
        values = (value,) if isinstance(value, int) else tuple(value)
        return values * dimensions if len(values) == 1 else values

    return Geometry(
        spread(call["stride"]), spread(call["padding"]), spread(call["dilation"]), call["groups"]
    )
