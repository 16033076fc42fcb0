"""BatchNorm in evaluation mode: a fixed affine map, differentiated as one.

torch's second derivative is written for training mode and takes a dozen passes over the
activations; with fixed statistics one multiplication is enough.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from curvbound.curvature.conv import Switch

__all__ = ["Standardisation", "standardise"]


@dataclass(frozen=True, eq=False)
class Standardisation:
    """The fixed statistics of a BatchNorm layer."""

    mean: Tensor
    variance: Tensor
    epsilon: float

    def apply(self, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """(inputs - mean) / sqrt(variance + epsilon) * weight + bias, channel by channel."""
        return functional.batch_norm(
            inputs, self.mean, self.variance, weight, bias, training=False, eps=self.epsilon
        )

    def transpose(self, gradient: Tensor, inputs: Tensor, weight: Tensor) -> Tensor:
        """Gradient with respect to the inputs."""
        scale = weight * self.inverse_deviation()
        return gradient * scale.reshape(-1, *[1] * (gradient.dim() - 2))

    def inverse_deviation(self) -> Tensor:
        """1 / sqrt(variance + epsilon)."""
        return (self.variance + self.epsilon).rsqrt()


class _InputGradient(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        gradient: Tensor,
        weight: Tensor,
        inputs: Tensor,
        fixed: Standardisation,
        on: Switch,
    ) -> Tensor:
        ctx.save_for_backward(gradient, weight)
        ctx.fixed, ctx.on = fixed, on
        return fixed.transpose(gradient, inputs, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (tangent,) = gradients
        gradient, weight = ctx.saved_tensors
        to_weight = None
        if ctx.on.weights and ctx.needs_input_grad[1]:
            across = [d for d in range(gradient.dim()) if d != 1]
            to_weight = (tangent * gradient).sum(across) * ctx.fixed.inverse_deviation()
        return ctx.fixed.transpose(tangent, gradient, weight), to_weight, None, None, None


class _Standardise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        fixed: Standardisation,
        on: Switch,
    ) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        ctx.fixed, ctx.on = fixed, on
        return fixed.apply(inputs, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        inputs, weight = ctx.saved_tensors
        if not ctx.on.weights:
            if not ctx.needs_input_grad[0]:
                return (None,) * 5
            constants = inputs.detach(), ctx.fixed, ctx.on
            back = _InputGradient.apply(gradient, weight, *constants)  # type: ignore[no-untyped-call]
            return back, None, None, None, None
        fixed: Standardisation = ctx.fixed
        parts = torch.ops.aten.native_batch_norm_backward(
            gradient, inputs, weight, fixed.mean, fixed.variance, None, None, False, fixed.epsilon,
            list(ctx.needs_input_grad[:3]),
        )  # fmt: skip
        return (*parts, None, None)


def standardise(
    inputs: Tensor, weight: Tensor, bias: Tensor | None, fixed: Standardisation, on: Switch
) -> Tensor:
    """BatchNorm in evaluation mode; differentiate it like ``conv.convolve``."""
    arguments = (inputs, weight, bias, fixed, on)
    result: Tensor = _Standardise.apply(*arguments)  # type: ignore[no-untyped-call]
    return result
