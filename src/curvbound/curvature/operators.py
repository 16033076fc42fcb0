"""Curvature matrices known by their products with vectors."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
from torch import Tensor

from curvbound.batches import Inputs
from curvbound.curvature.graphs import ChunkGraph
from curvbound.errors import CurvboundError
from curvbound.landscape import Landscape, LayerChoice
from curvbound.memory import GRAPH_FACTOR, KEPT_GRAPHS

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

__all__ = ["CurvatureOperator"]

Graph = TypeVar("Graph", bound=ChunkGraph)


class CurvatureOperator(ABC, Generic[Graph]):
    """A symmetric P x P matrix of the mean loss that is never formed.

    ``H @ v`` takes a vector (P,) or a block of column vectors (P, k). Products at the same weights
    share one forward and backward pass per chunk of data as long as these fit into memory (beyond,
    they are streamed again); when the network's weights change, so do the products.

    Attributes:
        land: The landscape it was made from.
        names: The parameters it is about, in the order of its rows and columns.
        shape: ``(P, P)``.
        psd: Whether it is positive semi-definite by construction.
        matvecs: Products so far; a block of k vectors counts k.
        dtype: Floating-point type of the network.
        device: Where its parameters are.
    """

    psd: bool
    name: str

    def __init__(self, land: Landscape, layer: LayerChoice) -> None:
        self.land = land
        self.names = land.choose(layer)
        size = sum(land.parameters[name].numel() for name in self.names)
        self.shape = (size, size)
        self.dtype, self.device = land.dtype, land.device
        self.matvecs = 0
        self._kept: list[Graph] = []
        self._complete = False
        self._fingerprint: object = None

    @abstractmethod
    def _graph(self, inputs: Inputs, targets: Tensor, start: int) -> Graph:
        """What the products with one chunk share; ``start`` counts the labels before it."""

    @abstractmethod
    def _product(self, graph: Graph, vector: dict[str, Tensor]) -> list[Tensor | None]:
        """One product with the **summed** curvature of one chunk."""

    def __matmul__(self, vectors: Tensor) -> Tensor:
        block = self._checked(vectors)

        def contribution(graph: Graph) -> Tensor:
            columns = [
                self.land.flatten(
                    self._product(graph, self.land.unflatten(column, self.names)), self.names
                )
                for column in block.unbind(1)
            ]
            # Every column in one piece: cheaper to write, and to read column by column.
            return torch.stack(columns).T if len(columns) > 1 else columns[0].unsqueeze(1)

        total = self.land.reduce(contribution, ((graph,) for graph in self._graphs()))
        total = total.div_(self.land.terms)
        if not math.isfinite(float(total.sum())):
            raise CurvboundError(
                f"A product with the {self.name} is not finite: look for infinite inputs, for "
                "weights that overflow, or for a function without a second derivative (sqrt at 0)."
            )
        self.matvecs += block.shape[1]
        return total.squeeze(1) if vectors.dim() == 1 else total

    def _checked(self, vectors: Tensor) -> Tensor:
        if not isinstance(vectors, Tensor):
            raise CurvboundError(
                f"The {self.name} multiplies torch tensors, not {type(vectors).__name__}: convert "
                "with torch.as_tensor, or use to_scipy() for numpy arrays."
            )
        if vectors.dim() not in (1, 2) or len(vectors) != self.shape[1] or 0 in vectors.shape:
            raise CurvboundError(
                f"The {self.name} has shape {self.shape} and cannot multiply a tensor of shape "
                f"{tuple(vectors.shape)}: pass ({self.shape[1]},) or ({self.shape[1]}, k)."
            )
        block = vectors.detach().to(self.device, self.dtype)
        return block.unsqueeze(1) if block.dim() == 1 else block

    def _graphs(self) -> Iterator[Graph]:
        """Graphs of all chunks in order: the kept ones first, the others made on the way."""
        fingerprint = self.land.fingerprint()
        if fingerprint != self._fingerprint:
            self.release()
            self._fingerprint = fingerprint
        kept = tuple(self._kept)
        yield from kept
        if self._complete:
            return
        room = self._room()
        start = 0
        for index, (inputs, targets) in enumerate(self.land.batches()):
            if index >= len(kept):
                graph = self._graph(inputs, targets, start)
                if index == 0:
                    graph.refuse_hidden_errors()
                if index < room:
                    self._kept.append(graph)
                yield graph
            start += targets.numel()
        self._complete = len(self._kept) == index + 1

    def _room(self) -> int:
        """How many graphs may be kept."""
        per_chunk = GRAPH_FACTOR * self.land.saved_bytes * self.land.batch_size
        return min(self.land.memory, KEPT_GRAPHS) // max(1, per_chunk)

    def release(self) -> None:
        """Free what the products share; the next product makes it anew."""
        self._kept.clear()
        self._complete = False
        self._fingerprint = None

    def dense(self) -> Tensor:
        """The matrix itself, for small P: P products."""
        return self @ torch.eye(self.shape[0], dtype=self.dtype, device=self.device)

    def to_scipy(self) -> "LinearOperator":
        """The same matrix for scipy's solvers and eigenvalue routines, on numpy arrays."""
        from curvbound.curvature.interop import to_scipy

        return to_scipy(self)

    def __repr__(self) -> str:
        return f"{self.name} {self.shape[0]} x {self.shape[1]} of {self.land!r}"

    def __array__(self, *_: Any) -> Any:
        # numpy would otherwise try to read it element by element.
        raise CurvboundError(f"The {self.name} is not an array: use dense() or to_scipy().")
