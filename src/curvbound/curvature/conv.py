"""Convolution whose second derivatives cost no more than they must.

torch differentiates a convolution's backward pass through reshaped copies and, with groups, a loop.
Here every part of the first and second derivative is one native convolution call.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = ["Geometry", "Switch", "convolve"]

_aten = torch.ops.aten


@dataclass(frozen=True)
class Geometry:
    """Stride, padding, dilation and groups of a convolution."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def arguments(self) -> tuple[Any, ...]:
        """In the order of torch's native calls: not transposed, no output padding."""
        zeros = [0] * len(self.stride)
        return (
            list(self.stride), list(self.padding), list(self.dilation), False, zeros, self.groups
        )  # fmt: skip

    def apply(self, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The plain convolution."""
        result: Tensor = _aten.convolution(inputs, weight, bias, *self.arguments())
        return result

    def transpose(self, gradient: Tensor, inputs: Tensor, weight: Tensor) -> Tensor:
        """Gradient with respect to the inputs (of which only the shape matters)."""
        parts = _aten.convolution_backward(
            gradient, inputs, weight, None, *self.arguments(), [True, False, False]
        )
        result: Tensor = parts[0]
        return result


@dataclass
class Switch:
    """Whether backward passes compute weight gradients.

    Autograd skips what nobody asks for, except inside Python functions: they need to be told.
    """

    weights: bool = True


class _InputGradient(torch.autograd.Function):
    """The transposed convolution of the backward pass, itself differentiable once."""

    @staticmethod
    def forward(
        ctx: Any, gradient: Tensor, weight: Tensor, inputs: Tensor, geometry: Geometry, on: Switch
    ) -> Tensor:
        ctx.save_for_backward(gradient, weight)
        ctx.geometry, ctx.on = geometry, on
        return geometry.transpose(gradient, inputs, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (tangent,) = gradients
        gradient, weight = ctx.saved_tensors
        to_gradient = to_weight = None
        if ctx.needs_input_grad[0]:
            to_gradient = ctx.geometry.apply(tangent, weight, None)
        if ctx.needs_input_grad[1] and ctx.on.weights:
            to_weight = _aten.convolution_backward(
                gradient, tangent, weight, None, *ctx.geometry.arguments(), [False, True, False]
            )[1]
        return to_gradient, to_weight, None, None, None


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        geometry: Geometry,
        on: Switch,
    ) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        ctx.geometry, ctx.on = geometry, on
        return geometry.apply(inputs, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        inputs, weight = ctx.saved_tensors
        to_inputs, to_weight, to_bias = ctx.needs_input_grad[:3]
        if not ctx.on.weights:
            if not to_inputs:
                return (None,) * 5
            constants = inputs.detach(), ctx.geometry, ctx.on
            back = _InputGradient.apply(gradient, weight, *constants)  # type: ignore[no-untyped-call]
            return back, None, None, None, None
        parts = _aten.convolution_backward(
            gradient, inputs, weight, [weight.shape[0]], *ctx.geometry.arguments(),
            [to_inputs, to_weight, to_bias],
        )  # fmt: skip
        return (*parts, None, None)


def convolve(
    inputs: Tensor, weight: Tensor, bias: Tensor | None, geometry: Geometry, on: Switch
) -> Tensor:
    """Convolution; differentiate it once with ``on.weights`` False, then again with True."""
    arguments = (inputs, weight, bias, geometry, on)
    result: Tensor = _Convolution.apply(*arguments)  # type: ignore[no-untyped-call]
    return result
