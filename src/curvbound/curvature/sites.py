"""Where a forward pass multiplies activations with weights.

A *site* is one call of a dense layer or a convolution whose weight is a parameter, however the
module that made the call is written. Derivatives can stop at a site's output: the weight gradient
is known from there, so it need not be formed to be differentiated again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from curvbound.curvature.conv import Geometry, Switch, convolve, input_gradient
from curvbound.curvature.relu import relu

__all__ = ["Site", "SiteRecorder"]

_CONVOLUTIONS: dict[Callable[..., Any], int] = {torch.conv1d: 1, torch.conv2d: 2, torch.conv3d: 3}
_RELUS = (functional.relu, torch.relu, Tensor.relu)
_CONV_DEFAULTS = {"bias": None, "stride": 1, "padding": 0, "dilation": 1, "groups": 1}


@dataclass(frozen=True)
class Site:
    """One multiplication of activations with a weight.

    Attributes:
        weight: Name of the weight.
        bias: Name of the bias, if it is one of the recorded parameters.
        inputs: The activations that were multiplied.
        output: Where the product sits in the autograd graph (it survives in-place changes).
        geometry: Of a convolution; None for a dense layer.
    """

    weight: str
    bias: str | None
    inputs: Tensor
    output: GradientEdge
    geometry: Geometry | None

    def forward_tangent(self, weight: Tensor, bias: Tensor | None) -> Tensor:
        """How the output changes with the weight and bias alone."""
        inputs = self.inputs.detach()
        if self.geometry is None:
            return functional.linear(inputs, weight, bias)
        return self.geometry.apply(inputs, weight, bias)

    def backward_tangent(self, gradient: Tensor, weight: Tensor) -> Tensor:
        """How the gradient of the inputs changes with the weight alone."""
        if self.geometry is None:
            return gradient @ weight
        return input_gradient(gradient, self.inputs.detach(), weight, self.geometry)


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
            if self._known(call):
                return self._dense(**call)
        elif func in _CONVOLUTIONS:
            names = ("input", "weight", *_CONV_DEFAULTS)
            call = _bind(names, args, _CONV_DEFAULTS | kwargs)
            geometry = _geometry(call, _CONVOLUTIONS[func])
            if geometry is not None and self._known(call):
                return self._convolution(call["input"], call["weight"], call["bias"], geometry)
        elif func in _RELUS and not kwargs.get("inplace", len(args) > 1 and args[1]):
            return relu(args[0] if args else kwargs["input"])
        return func(*args, **kwargs)

    def _known(self, call: Mapping[str, Any]) -> bool:
        # An unknown bias (frozen, or computed) next to a known weight is fine: it is a constant or
        # has a history of its own. A known bias next to an unknown weight takes the general way.
        return id(call["weight"]) in self._names

    def _alias(self, leaf: Tensor) -> Tensor:
        return self.aliases.setdefault(self._names[id(leaf)], leaf.detach().requires_grad_())

    def _optional_alias(self, bias: Tensor | None) -> Tensor | None:
        return self._alias(bias) if bias is not None and id(bias) in self._names else bias

    def _record(
        self, inputs: Tensor, weight: Tensor, bias: Any, output: Tensor, geometry: Geometry | None
    ) -> Tensor:
        bias_name = self._names.get(id(bias))
        edge = get_gradient_edge(output)
        self.sites.append(Site(self._names[id(weight)], bias_name, inputs, edge, geometry))
        return output

    def _dense(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # noqa: A002
        output = functional.linear(input, self._alias(weight), self._optional_alias(bias))
        return self._record(input, weight, bias, output, None)

    def _convolution(
        self, inputs: Tensor, weight: Tensor, bias: Tensor | None, geometry: Geometry
    ) -> Tensor:
        known = self._alias(weight), self._optional_alias(bias)
        output = convolve(inputs, *known, geometry, self._on)
        return self._record(inputs, weight, bias, output, geometry)


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
