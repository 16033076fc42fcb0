"""What one call of a layer says about the per-example gradients of its parameters.

Every layer here is linear in its parameters, so the gradient of one example is known from the
layer's input and the gradient at its output: sum over positions t of g_t x_t^T for a weight and of
g_t for a bias. Positions are the output pixels of a convolution, the places of a sequence, or the
calls of a module that runs more than once.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from curvbound.curvature.patches import columns
from curvbound.layers import layer_kind

__all__ = ["AffineUse", "ConvUse", "DenseUse", "EmbeddingUse", "NormUse", "Use", "make_use"]

WEIGHT, BIAS = "weight", "bias"
# Numbers of explicit per-example gradients that are held at once.
EXPLICIT = 2**20


class Use(ABC):
    """One call of a layer.

    Attributes:
        module: The layer.
        roles: Full parameter names by role (``weight``, ``bias``), trainable ones only.
        examples: Number of examples B.
        positions: Places per example that share the parameters.
    """

    positions: int

    def __init__(self, module: nn.Module, roles: Mapping[str, str], examples: int) -> None:
        self.module = module
        self.roles = roles
        self.examples = examples

    @abstractmethod
    def gradient(self, role: str, g: Tensor, part: slice = slice(None)) -> Tensor:
        """Gradients of single examples, ``(B, *shape of the parameter)``, of the chosen part.

        Args:
            role: ``weight`` or ``bias``.
            g: Gradient at the layer's output.
            part: Which examples.
        """

    def squares(self, role: str, gradients: Sequence[Tensor]) -> Tensor:
        """Sum over examples and over the given output gradients of the squared gradient.

        The result is shaped like the parameter.
        """
        return sum_of(
            self.gradient(role, g, part).square_().sum(0)
            for part in self.parts(role)
            for g in gradients
        )

    def parts(self, role: str, copies: int = 1) -> list[slice]:
        """Groups of examples whose gradients, times ``copies``, stay in the cache."""
        return example_parts(self.examples, copies * getattr(self.module, role).numel())


def sum_of(parts: Iterable[Tensor]) -> Tensor:
    """Sum of at least one tensor."""
    first, *others = parts
    for other in others:
        first = first + other
    return first


def example_parts(examples: int, size: int) -> list[slice]:
    """Slices of examples whose explicit gradients of ``size`` numbers each fit together."""
    step = max(1, EXPLICIT // max(1, size))
    return [slice(start, min(start + step, examples)) for start in range(0, examples, step)]


class AffineUse(Use):
    """A call that multiplies rows of inputs with a weight matrix, one per group.

    Attributes:
        groups: Independent groups of inputs and outputs.
        width: Inputs n of one group.
        height: Outputs m of one group.
        weight_shape: Shape of the weight.
        inputs: What the layer was given.
    """

    groups: int
    width: int
    height: int
    weight_shape: torch.Size
    inputs: Tensor

    @override
    def parts(self, role: str, copies: int = 1) -> list[slice]:
        columns = self.groups * self.width * self.positions
        return example_parts(self.examples, max(columns, copies * self.weight_shape.numel()))

    @abstractmethod
    def input_columns(self, part: slice = slice(None)) -> Tensor:
        """Inputs as ``(B, groups, n, T)``."""

    @abstractmethod
    def output_columns(self, g: Tensor, part: slice = slice(None)) -> Tensor:
        """Output gradients as ``(B, groups, m, T)``."""

    @abstractmethod
    def output_rows(self, g: Tensor) -> Tensor:
        """Output gradients of all examples and positions, ``(groups, m, B T)``."""

    @override
    def gradient(self, role: str, g: Tensor, part: slice = slice(None)) -> Tensor:
        left = self.output_columns(g, part)
        if role == BIAS:
            return left.sum(3).flatten(1)
        product = left @ self.input_columns(part).mT
        return product.reshape(len(left), *self.weight_shape)

    @override
    def squares(self, role: str, gradients: Sequence[Tensor]) -> Tensor:
        if role == BIAS:
            return super().squares(role, gradients)
        # One product with all output gradients below each other is much faster than many.
        shape = (self.groups, len(gradients) * self.height, -1)
        parts = []
        for part in self.parts(role, len(gradients)):
            left = torch.stack([self.output_columns(g, part) for g in gradients], 2)
            product = left.reshape(len(left), *shape) @ self.input_columns(part).mT
            parts.append(product.square_().sum(0))
        total = sum_of(parts).reshape(self.groups, len(gradients), self.height, self.width)
        return total.sum(1).reshape(self.weight_shape)


class DenseUse(AffineUse):
    """A call of ``nn.Linear``; leading dimensions beyond the examples are positions."""

    def __init__(
        self, module: nn.Linear, roles: Mapping[str, str], inputs: Tensor, examples: int
    ) -> None:
        super().__init__(module, roles, examples)
        self.weight_shape = module.weight.shape
        self.height, self.width = self.weight_shape
        self.groups = 1
        self.inputs = inputs
        self.rows = inputs.reshape(examples, -1, self.width)
        self.positions = self.rows.shape[1]

    @override
    def input_columns(self, part: slice = slice(None)) -> Tensor:
        return self.rows[part].mT.unsqueeze(1)

    @override
    def output_columns(self, g: Tensor, part: slice = slice(None)) -> Tensor:
        return g.reshape(self.examples, -1, self.height)[part].mT.unsqueeze(1)

    @override
    def output_rows(self, g: Tensor) -> Tensor:
        return g.reshape(-1, self.height).T.unsqueeze(0)


class ConvUse(AffineUse):
    """A call of a convolution; its output pixels are positions."""

    def __init__(
        self,
        module: nn.Conv1d | nn.Conv2d | nn.Conv3d,
        roles: Mapping[str, str],
        inputs: Tensor,
        output_shape: torch.Size,
        examples: int,
    ) -> None:
        super().__init__(module, roles, examples)
        self.inputs = inputs
        self.groups = module.groups
        self.height = module.out_channels // module.groups
        self.width = module.weight[0].numel()
        self.weight_shape = module.weight.shape
        self.output_shape = output_shape
        self.positions = output_shape[2:].numel()
        self.conv = module

    @override
    def input_columns(self, part: slice = slice(None)) -> Tensor:
        return columns(self.conv, self.inputs[part])

    @override
    def output_columns(self, g: Tensor, part: slice = slice(None)) -> Tensor:
        return g.reshape(self.examples, self.groups, self.height, -1)[part]

    @override
    def output_rows(self, g: Tensor) -> Tensor:
        # Channels first, then all positions of all examples: (B, m, P) -> (m, B P). A bare reshape
        # would mix channels and positions (001-E4).
        return self.output_columns(g).permute(1, 2, 0, 3).flatten(2)


class NormUse(Use):
    """A call of a normalisation layer: scale and shift of a normalised input."""

    def __init__(
        self, module: nn.Module, roles: Mapping[str, str], inputs: Tensor, examples: int
    ) -> None:
        super().__init__(module, roles, examples)
        self._trailing = isinstance(module, nn.LayerNorm)
        shape = next(p.shape for p in (module.weight, module.bias) if isinstance(p, Tensor))
        self.features = shape.numel()
        self._shape = shape
        self.normalised = self._arrange(_normalise(module, inputs))
        self.positions = self.normalised.shape[2]

    def _arrange(self, tensor: Tensor) -> Tensor:
        """Bring activations to ``(B, features, T)``."""
        if self._trailing:
            return tensor.reshape(self.examples, -1, self.features).mT
        return tensor.reshape(self.examples, self.features, -1)

    @override
    def gradient(self, role: str, g: Tensor, part: slice = slice(None)) -> Tensor:
        arranged = self._arrange(g)[part]
        if role == WEIGHT:
            arranged = arranged * self.normalised[part]
        return arranged.sum(2).reshape(-1, *self._shape)


def _normalise(module: nn.Module, inputs: Tensor) -> Tensor:
    if isinstance(module, nn.LayerNorm):
        return functional.layer_norm(inputs, module.normalized_shape, eps=module.eps)
    if isinstance(module, nn.GroupNorm):
        return functional.group_norm(inputs, module.num_groups, eps=module.eps)
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        mean, variance = module.running_mean, module.running_var
        # The landscape refuses batch normalisation without running statistics.
        assert mean is not None
        assert variance is not None
        return functional.batch_norm(inputs, mean, variance, eps=module.eps)
    raise TypeError(type(module).__name__)


class EmbeddingUse(Use):
    """A call of ``nn.Embedding``: output gradients are added to the rows of the tokens."""

    def __init__(
        self, module: nn.Embedding, roles: Mapping[str, str], tokens: Tensor, examples: int
    ) -> None:
        super().__init__(module, roles, examples)
        self.tokens = tokens.reshape(examples, -1)
        self.positions = self.tokens.shape[1]
        self.vocabulary, self.width = module.weight.shape
        self._ignored = module.padding_idx

    def trained_tokens(self) -> Tensor:
        """All tokens but the padding token, flat."""
        tokens = self.tokens.reshape(-1)
        return tokens if self._ignored is None else tokens[tokens != self._ignored]

    def rows(self, g: Tensor) -> Tensor:
        """Output gradients ``(B, T, width)``, zero at the padding token, which is not trained."""
        rows = g.reshape(self.examples, -1, self.width)
        if self._ignored is None:
            return rows
        return rows * (self.tokens != self._ignored).unsqueeze(2)

    @override
    def gradient(self, role: str, g: Tensor, part: slice = slice(None)) -> Tensor:
        rows = self.rows(g)[part]
        where = self.tokens[part].unsqueeze(2).expand_as(rows)
        return rows.new_zeros(len(rows), self.vocabulary, self.width).scatter_add_(1, where, rows)

    @override
    def squares(self, role: str, gradients: Sequence[Tensor]) -> Tensor:
        # Only the rows of tokens that occur in an example are formed.
        example = torch.arange(self.examples, device=self.tokens.device).unsqueeze(1)
        pairs, place = torch.unique(example * self.vocabulary + self.tokens, return_inverse=True)
        total = gradients[0].new_zeros(self.vocabulary, self.width)
        for g in gradients:
            rows = g.new_zeros(len(pairs), self.width)
            rows.index_add_(0, place.reshape(-1), self.rows(g).reshape(-1, self.width))
            total.index_add_(0, pairs % self.vocabulary, rows.square_())
        return total


def make_use(
    module: nn.Module, roles: Mapping[str, str], inputs: Tensor, output: Tensor, examples: int
) -> Use | None:
    """Describe a call, or None if its tensors are not laid out example by example."""
    for tensor in (inputs, output):
        if tensor.dim() == 0 or examples == 0 or tensor.shape[0] % examples:
            return None
    kind = layer_kind(module)
    if isinstance(module, nn.Linear):
        return DenseUse(module, roles, inputs, examples)
    if isinstance(module, nn.Embedding):
        return EmbeddingUse(module, roles, inputs, examples)
    if kind == "layer_norm":
        return NormUse(module, roles, inputs, examples)
    if inputs.shape[0] != examples:
        return None
    if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        if inputs.dim() != 2 + len(module.kernel_size):
            return None
        return ConvUse(module, roles, inputs, output.shape, examples)
    return NormUse(module, roles, inputs, examples)
