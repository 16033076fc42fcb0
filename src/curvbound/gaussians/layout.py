"""How the parameters of a network form one matrix per layer.

The rule needs names and shapes only, not the modules, so that a stored distribution can be read
back without the code of the network.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from curvbound.errors import CurvboundError
from curvbound.layers import ROOT

__all__ = ["BlockLayout", "checked_parameters", "layouts_of"]


@dataclass(frozen=True)
class BlockLayout:
    """Parameters that lie side by side in one matrix of a layer.

    Every parameter is flattened to ``(rows, -1)`` and they are joined along the columns: a weight
    ``(out, in, *kernel)`` and a bias ``(out,)`` give ``(out, in * kernel + 1)``, the bias last.

    Attributes:
        name: Path of the layer, or the full name of a parameter that stands alone.
        parameters: Full names of the parameters.
        shapes: Their shapes.
    """

    name: str
    parameters: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @property
    def rows(self) -> int:
        """Rows of the matrix."""
        return self.shapes[0][0] if self.shapes[0] else 1

    @property
    def columns(self) -> int:
        """Columns of the matrix."""
        return self.size // self.rows

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(prod(shape) for shape in self.shapes)

    def join(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """The matrix of the layer."""
        return torch.cat([tensors[name].reshape(self.rows, -1) for name in self.parameters], 1)

    def split(self, matrix: Tensor) -> dict[str, Tensor]:
        """The parameters in a matrix, or in a stack of matrices ``(..., rows, columns)``."""
        widths = [prod(shape) // self.rows for shape in self.shapes]
        lead = matrix.shape[:-2]
        parts = torch.split(matrix, widths, -1)
        return {
            name: part.reshape((*lead, *shape))
            for name, part, shape in zip(self.parameters, parts, self.shapes, strict=True)
        }


def layouts_of(parameters: Mapping[str, Tensor]) -> dict[str, BlockLayout]:
    """Group named parameters into layer matrices, in their order.

    ``path.weight`` and ``path.bias`` belong together when the bias has one entry for each row of
    the weight, or the weight's shape (normalisation layers). All others stand alone.

    >>> blocks = layouts_of({"fc.weight": torch.zeros(2, 3), "fc.bias": torch.zeros(2)})
    >>> blocks["fc"].rows, blocks["fc"].columns
    (2, 4)
    """
    layouts: dict[str, BlockLayout] = {}
    placed: set[str] = set()
    for name, tensor in parameters.items():
        if not isinstance(tensor, Tensor):
            raise CurvboundError(f"Parameter '{name}' must be a tensor.")
        if name in placed:
            continue
        path, _, last = name.rpartition(".")
        names = [name]
        bias = f"{path}.bias" if path else "bias"
        if last == "weight" and bias in parameters and _belong(tensor, parameters[bias]):
            names.append(bias)
        placed.update(names)
        lone_bias = last == "bias" and f"{name.removesuffix('bias')}weight" not in parameters
        title = (path or ROOT) if last == "weight" or lone_bias else name
        shapes = tuple(tuple(parameters[part].shape) for part in names)
        layouts[title] = BlockLayout(title, tuple(names), shapes)
    return layouts


def _belong(weight: Tensor, bias: Tensor) -> bool:
    if weight.dim() == 0:
        return False
    return bias.shape in (weight.shape, weight.shape[:1])


def checked_parameters(parameters: Mapping[str, Tensor], what: str) -> dict[str, Tensor]:
    """Detached copies of named tensors, refused unless they are finite floating-point numbers."""
    if not parameters:
        raise CurvboundError(f"The {what} names no parameter: pass at least one.")
    copies = {}
    for name, tensor in parameters.items():
        if not isinstance(tensor, Tensor) or not tensor.is_floating_point() or not tensor.numel():
            raise CurvboundError(
                f"The {what} of '{name}' must be a non-empty tensor of real floating-point numbers."
            )
        if not bool(torch.isfinite(tensor).all()):
            raise CurvboundError(
                f"The {what} of '{name}' contains NaN or infinite values: train or load it again."
            )
        copies[name] = tensor.detach().clone(memory_format=torch.contiguous_format)
    return copies
