"""Kronecker factors of every layer's Gauss-Newton matrix, with the exact output Hessian."""

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor
from typing_extensions import override

from curvbound.curvature.captures import plan_captures
from curvbound.curvature.factors import (
    Block,
    DampedLogdet,
    DenseBlock,
    DiagonalBlock,
    damped_logdet,
)
from curvbound.curvature.kronecker_block import KroneckerBlock
from curvbound.curvature.kronecker_pass import Method, collect, layer_methods
from curvbound.curvature.uses import BIAS, WEIGHT
from curvbound.errors import CurvboundError
from curvbound.landscape import Landscape
from curvbound.layers import LayerBlock

__all__ = ["KroneckerFactors", "kronecker"]


class KroneckerFactors(Mapping[str, Block]):
    """Block-diagonal curvature, one block per layer.

    ``K["fc1"].output`` is E[M] and ``K["fc1"].input`` is E[x x^T] (001 eq. 6). Each block says in
    ``kind`` and ``note`` which approximation it is. The whole is a curvature operator in the order
    of the flat parameter vector; in the eigenbasis, coordinates are grouped by layer.

    Attributes:
        shape: ``(P, P)``.
        slices: Where each layer lies in the flat parameter vector.
        dtype: Precision of the factors.
        device: Where they are.
        psd: True.
    """

    psd = True

    def __init__(
        self,
        blocks: Mapping[str, Block],
        slices: Mapping[str, slice],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._blocks = dict(blocks)
        self.slices = dict(slices)
        self.dtype, self.device = dtype, device
        size = sum(block.size for block in self._blocks.values())
        self.shape = (size, size)

    @override
    def __getitem__(self, name: str) -> Block:
        return self._blocks[name]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._blocks)

    @override
    def __len__(self) -> int:
        return len(self._blocks)

    def __matmul__(self, vectors: Tensor) -> Tensor:
        return self._each(vectors, lambda block, part: block @ part)

    def diagonal(self) -> Tensor:
        """Diagonal, in parameter order."""
        result = torch.empty(self.shape[0], dtype=self.dtype, device=self.device)
        for name, block in self.items():
            result[self.slices[name]] = block.diagonal()
        return result

    def trace(self) -> float:
        """Sum of the eigenvalues."""
        return sum(block.trace() for block in self.values())

    def eigenvalues(self, dtype: torch.dtype = torch.float64) -> Tensor:
        """All eigenvalues, layer by layer, in the order of :meth:`to_eigenbasis`."""
        result = torch.empty(self.shape[0], dtype=dtype, device=self.device)
        for name, block in self.items():
            result[self.slices[name]] = block.eigenvalues(dtype)
        return result

    def to_eigenbasis(self, vectors: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        """Coordinates of flat vectors in the eigenbases of the layers (001 eq. 47)."""
        return self._each(vectors, lambda block, part: block.to_eigenbasis(part, dtype))

    def from_eigenbasis(self, vectors: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        """The inverse of :meth:`to_eigenbasis` (001 eq. 48)."""
        return self._each(vectors, lambda block, part: block.from_eigenbasis(part, dtype))

    def solve(self, vectors: Tensor, damping: float) -> Tensor:
        """(K + damping I)^-1 ``vectors``."""
        return self._each(vectors, lambda block, part: block.solve(part, damping))

    def logdet(self, damping: float) -> DampedLogdet:
        """Logarithm of det(K + damping I), with the damping's share of it."""
        return damped_logdet(self.eigenvalues(), damping)

    def _each(self, vectors: Tensor, apply: Callable[[Block, Tensor], Tensor]) -> Tensor:
        if vectors.dim() not in (1, 2) or vectors.shape[0] != self.shape[0]:
            raise CurvboundError(
                f"The network has {self.shape[0]} parameters, but the vector has shape "
                f"{tuple(vectors.shape)}."
            )
        parts = {name: apply(block, vectors[self.slices[name]]) for name, block in self.items()}
        result = torch.empty_like(vectors, dtype=next(iter(parts.values())).dtype)
        for name, part in parts.items():
            result[self.slices[name]] = part
        return result

    def __repr__(self) -> str:
        lines = [f"  {name}: {block.note}" for name, block in self.items()]
        return "\n".join([f"KroneckerFactors of {self.shape[0]:,} parameters", *lines])


def kronecker(land: Landscape) -> KroneckerFactors:
    """E[M] kron E[x x^T] for every layer (001 eqs. 4-6), M = J^T A J with A the output Hessian.

    A is exact: its C - 1 square roots (001 eq. 27) are sent back through the network, and the
    backward passes stop at the layers' outputs. Biases are a last input of value one.

    Convolutions follow 001 App. A.2: M is averaged over the P output pixels and X X^T is summed
    over them (001-E4); dense layers on sequences are treated as convolutions with 1 x 1 kernels;
    every group of a grouped convolution has factors of its own. Normalisation layers get their
    exact block; everything else, among it modules that are called twice or share parameters, the
    exact diagonal of the Gauss-Newton matrix. ``K[layer].note`` says which.

    >>> import torch
    >>> land = Landscape(torch.nn.Linear(3, 2), (torch.randn(6, 3), torch.tensor([0, 1] * 3)))
    >>> K = kronecker(land)
    >>> [tuple(factor.shape) for block in K.values() for factor in (block.output, block.input)]
    [(2, 2), (4, 4)]
    """
    plan = plan_captures(land)
    methods = layer_methods(land, plan)
    sums = collect(land, plan, methods)
    blocks = {name: _block(land, land.layers[name], methods[name], sums) for name in land.layers}
    slices = {name: block.slice for name, block in land.layers.items()}
    return KroneckerFactors(blocks, slices, land.dtype, land.device)


def _block(land: Landscape, layer: LayerBlock, method: Method, sums: dict[str, Tensor]) -> Block:
    name, note = layer.name, method.note
    if method.kind == "diagonal":
        parts = [sums.pop(f"square {parameter}").reshape(-1) for parameter in layer.parameters]
        return DiagonalBlock(name, (torch.cat(parts) / land.terms).to(land.dtype), note)
    output = (sums.pop(f"output {name}") / land.terms).to(land.dtype)
    if method.kind == "dense":
        return DenseBlock(name, output[0], note)
    inputs = (sums.pop(f"input {name}") / land.n).to(land.dtype)
    roles = {parameter.rpartition(".")[2] for parameter in layer.parameters}
    return KroneckerBlock(
        name, output, inputs, weight=WEIGHT in roles, bias=BIAS in roles, note=note
    )
