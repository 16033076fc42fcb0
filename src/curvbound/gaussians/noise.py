"""How one layer computes its output with an independent weight draw for every example.

The layer matrix is W = mean + left N right^T, where the entries of N are independent. Three ways to
get the exact law of the output (CERT-4 ii):

* ``local``: a dense layer that sees each example once, Gaussian N. The noise of the output is
  left (sqrt(variance (right^T x)^2) * eps): no weight is ever drawn.
* ``per-example``: one N for each example, shared by all positions and calls, for convolutions,
  dense layers over several positions, layers that run twice, and noise that is not Gaussian.
* ``per-example`` for normalisation layers: scale and shift drawn for each example.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from curvbound.errors import CurvboundError
from curvbound.gaussians.block import Block
from curvbound.gaussians.draws import Draws
from curvbound.gaussians.layout import BlockLayout

__all__ = ["CONVOLUTIONS", "NORMS", "LayerNoise", "NoisyLayer", "make_noisy"]

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.LayerNorm, nn.GroupNorm)

# Numbers held at once for the weights and positions of a group of examples.
_WORKING_SET = 2**24


class LayerNoise(Protocol):
    """What a distribution tells about one layer: W = mean + left N right^T."""

    @property
    def layout(self) -> BlockLayout:
        """The layer matrix."""

    @property
    def left(self) -> Tensor | None:
        """Orthogonal matrix, or None for the identity."""

    @property
    def right(self) -> Tensor | None:
        """Orthogonal matrix, or None for the identity."""

    def standard_noise(
        self, count: int, generator: torch.Generator, dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        """Independent draws of N, ``(count, rows, columns)``."""


class NoisyLayer(ABC):
    """A layer with its mean weights and its noise, in the precision of the network.

    Attributes:
        method: ``local`` or ``per-example``.
    """

    method = "per-example"

    def __init__(
        self, module: nn.Module, mean: Mapping[str, Tensor], noise: LayerNoise, repeats: bool
    ) -> None:
        layout = noise.layout
        self.module, self.noise, self.layout, self.repeats = module, noise, layout, repeats
        owned = {name.rpartition(".")[2]: name for name in layout.parameters}
        self.random_weight, self.random_bias = "weight" in owned, "bias" in owned
        self.weight = _mean(module, mean, owned, "weight")
        self.bias = _mean(module, mean, owned, "bias")
        example = mean[layout.parameters[0]]
        self.dtype, self.device = example.dtype, example.device
        self.left = None if noise.left is None else noise.left.to(example)
        self.right = None if noise.right is None else noise.right.to(example)

    @abstractmethod
    def __call__(self, x: Tensor, draws: Draws) -> Tensor:
        """Output of the layer, every example with its own weights."""

    def _turned(self, noise: Tensor) -> Tensor:
        """``left N right^T`` for a stack of draws."""
        if self.left is not None:
            noise = self.left @ noise
        return noise if self.right is None else noise @ self.right.T

    def _generator(self, draws: Draws, x: Tensor) -> torch.Generator:
        name = self.layout.name
        if len(x) != draws.examples or (not self.repeats and not draws.first_call(name)):
            raise CurvboundError(
                f"Layer '{name}' is used in another way than in the example pass: the network's "
                "forward pass must treat all batches alike."
            )
        return draws.generator(name, repeats=self.repeats)


def _mean(
    module: nn.Module, mean: Mapping[str, Tensor], owned: Mapping[str, str], part: str
) -> Tensor | None:
    if part in owned:
        return mean[owned[part]]
    fixed: Tensor | None = getattr(module, part)
    return None if fixed is None else fixed.detach().clone()


class LocalLinear(NoisyLayer):
    """A dense layer that sees every example once."""

    method = "local"

    def __init__(
        self, module: nn.Module, mean: Mapping[str, Tensor], noise: Block, repeats: bool
    ) -> None:
        super().__init__(module, mean, noise, repeats)
        self.variance = noise.variance.to(self.device, self.dtype).T.contiguous()

    def __call__(self, x: Tensor, draws: Draws) -> Tensor:
        generator = self._generator(draws, x)
        mean, deviation = draws.kept.moments(self.layout.name, x, self._moments)
        noise = torch.randn(
            mean.shape, generator=generator, dtype=self.dtype, device=generator.device
        ).to(self.device)
        noise.mul_(deviation)
        if self.left is not None:
            return torch.addmm(mean, noise, self.left.T).view(*x.shape[:-1], -1)
        return noise.add_(mean).view(*x.shape[:-1], -1)

    def _moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean of the output and standard deviation of its noise before the left rotation."""
        if x.numel() != len(x) * x.shape[-1]:
            raise CurvboundError(
                f"Layer '{self.layout.name}' sees several positions per example now but saw one in "
                "the example pass: the forward pass must treat all batches alike."
            )
        assert self.weight is not None
        rows = x.reshape(len(x), -1)
        return functional.linear(rows, self.weight, self.bias), self._variance(rows).sqrt_()

    def _variance(self, x: Tensor) -> Tensor:
        """``variance (right^T x~)^2`` with x~ the input and, for the bias, a last entry of 1."""
        width = x.shape[1] if self.random_weight else 0
        if self.right is not None:
            turned = x @ self.right[:width] if width else x.new_zeros(len(x), len(self.right))
            if self.random_bias:
                turned += self.right[width]
            return turned.square_() @ self.variance
        if len(self.variance) == 1:
            squares = x.square().sum(1, keepdim=True) if width else x.new_zeros(len(x), 1)
            return (squares + float(self.random_bias)) @ self.variance
        result = x.square() @ self.variance[:width] if width else x.new_zeros(len(x), 1)
        return result + self.variance[width] if self.random_bias else result


class PerExample(NoisyLayer):
    """A dense layer or a convolution with one explicit draw of N for every example."""

    def __call__(self, x: Tensor, draws: Draws) -> Tensor:
        generator = self._generator(draws, x)
        output = self._mean_output(x)
        positions = output.numel() // (len(x) * self.layout.rows)
        noise = x.new_empty(len(x), positions, self.layout.rows)
        held = self.layout.size + positions * (
            self._groups * self.layout.columns + len(noise[0, 0])
        )
        step = max(1, _WORKING_SET // held)
        turn = self._turning_weights_is_cheaper(positions)
        left, right = (None, None) if turn else (self.left, self.right)
        for start in range(0, len(x), step):
            part = x[start : start + step]
            weights = self.noise.standard_noise(len(part), generator, self.dtype, self.device)
            weights = self._turned(weights) if turn else weights
            patches = self._patches(part, positions, right)
            noise[start : start + step] = self._apply(weights, patches, left)
        if isinstance(self.module, CONVOLUTIONS):
            noise = noise.mT
        return noise.reshape(output.shape) + output

    @property
    def _groups(self) -> int:
        return self.module.groups if isinstance(self.module, CONVOLUTIONS) else 1

    def _turning_weights_is_cheaper(self, positions: int) -> bool:
        """Compare the products for left N right^T with those for turning inputs and outputs."""
        rows, columns = self.layout.rows, self.layout.columns
        return rows * columns * (rows + columns) < positions * (self._groups * columns**2 + rows**2)

    def _mean_output(self, x: Tensor) -> Tensor:
        assert self.weight is not None
        if isinstance(self.module, CONVOLUTIONS):
            output: Tensor = self.module._conv_forward(x, self.weight, self.bias)
            return output
        return functional.linear(x, self.weight, self.bias)

    def _patches(self, x: Tensor, positions: int, right: Tensor | None) -> Tensor:
        """What N meets, ``(examples, groups, positions, columns)``, rotated by ``right``.

        Without a rotation the column of ones that belongs to the bias is left out.
        """
        shape = (len(x), positions, self._groups, -1)
        if not self.random_weight:
            patches = x.new_empty(*shape[:3], 0)
        elif isinstance(self.module, CONVOLUTIONS):
            patches = _unfold(self.module, x).reshape(shape)
        else:
            patches = x.reshape(shape)
        if right is not None:
            width = patches.shape[-1]
            patches = patches @ right[:width]
            if self.random_bias:
                patches += right[width]
        return patches.transpose(1, 2)

    def _apply(self, weights: Tensor, patches: Tensor, left: Tensor | None) -> Tensor:
        """``left N patches``, where rows of a group meet the patches of that group only."""
        if left is None:
            by_group = weights.reshape(len(weights), self._groups, -1, self.layout.columns)
            result = _times(by_group, patches)
        elif self._groups == 1:
            result = _times(weights[:, None], patches) @ left.T
        else:
            by_group = left.view(self._groups, -1, self.layout.rows)
            result = _times(weights[:, None], patches) @ by_group.mT
        return result.transpose(1, 2).flatten(2)


def _times(weights: Tensor, patches: Tensor) -> Tensor:
    """``patches weights^T``; a last column of weights without a partner meets ones."""
    width = patches.shape[-1]
    result = patches @ weights[..., :width].mT
    return result if width == weights.shape[-1] else result.add_(weights[..., width:].mT)


def _unfold(module: nn.Conv1d | nn.Conv2d | nn.Conv3d, x: Tensor) -> Tensor:
    """Patches of an input, ``(examples, *output positions, channels, *kernel)``."""
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    x = functional.pad(x, module._reversed_padding_repeated_twice, mode=mode)
    spatial = len(module.kernel_size)
    settings = zip(module.kernel_size, module.stride, module.dilation, strict=True)
    for axis, (kernel, stride, dilation) in enumerate(settings, start=2):
        x = x.unfold(axis, dilation * (kernel - 1) + 1, stride)[..., ::dilation]
    return x.permute(0, *range(2, 2 + spatial), 1, *range(2 + spatial, 2 + 2 * spatial))


class NoisyNorm(NoisyLayer):
    """BatchNorm (with its running statistics), LayerNorm or GroupNorm."""

    def __call__(self, x: Tensor, draws: Draws) -> Tensor:
        generator = self._generator(draws, x)
        noise = self._turned(self.noise.standard_noise(len(x), generator, self.dtype, self.device))
        drawn = {n.rpartition(".")[2]: part for n, part in self.layout.split(noise).items()}
        result = self._normalise(x)
        if self.weight is not None:
            result = result * self._aligned(self.weight, drawn.get("weight"), x.dim())
        if self.bias is not None:
            result = result + self._aligned(self.bias, drawn.get("bias"), x.dim())
        return result

    def _normalise(self, x: Tensor) -> Tensor:
        module = self.module
        if isinstance(module, nn.LayerNorm):
            shape = list(module.normalized_shape)
            return functional.layer_norm(x, shape, eps=module.eps)
        if isinstance(module, nn.GroupNorm):
            return functional.group_norm(x, module.num_groups, eps=module.eps)
        assert isinstance(module, nn.modules.batchnorm._BatchNorm)
        return functional.batch_norm(x, module.running_mean, module.running_var, eps=module.eps)

    def _aligned(self, mean: Tensor, noise: Tensor | None, axes: int) -> Tensor:
        """The parameter for every example, with the axes over which it is constant inserted."""
        drawn = mean[None] if noise is None else mean + noise
        constant = [1] * (axes - 1 - mean.dim())
        if isinstance(self.module, nn.LayerNorm):
            return drawn.reshape(len(drawn), *constant, *mean.shape)
        return drawn.reshape(len(drawn), *mean.shape, *constant)


def make_noisy(
    module: nn.Module,
    mean: Mapping[str, Tensor],
    noise: LayerNoise,
    *,
    calls: int,
    positions: int,
) -> NoisyLayer:
    """The cheapest exact rule for a layer that was used in this way."""
    if isinstance(module, NORMS):
        return NoisyNorm(module, mean, noise, calls > 1)
    once = isinstance(module, nn.Linear) and calls == 1 and positions == 1
    if once and isinstance(noise, Block):
        return LocalLinear(module, mean, noise, False)
    return PerExample(module, mean, noise, calls > 1)
