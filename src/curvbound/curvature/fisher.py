"""Fisher matrices: outer products of log-likelihood gradients."""

from typing import Literal

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from curvbound.batches import Inputs
from curvbound.curvature.gauss_newton import GaussNewton
from curvbound.curvature.graphs import JacobianGraph
from curvbound.curvature.operators import CurvatureOperator
from curvbound.errors import CurvboundError
from curvbound.landscape import Landscape, LayerChoice

__all__ = ["EmpiricalFisher", "ExactFisher", "SampledFisher", "fisher", "uniform_numbers"]


def uniform_numbers(seed: int, sample: int, start: int, like: Tensor) -> Tensor:
    """Uniform numbers in [0, 1), one per element of ``like``, float64.

    Number ``start + i`` of a (seed, sample) stream is the same however the stream is cut.
    """
    stream = np.random.PCG64(np.random.SeedSequence([seed, sample]))
    stream.advance(start)
    numbers = np.random.Generator(stream).random(tuple(like.shape))
    return torch.from_numpy(numbers).to(like.device)


class _SampledGraph(JacobianGraph):
    """A chunk's graph with the labels that were drawn for it."""

    labels: list[Tensor]


class SampledFisher(CurvatureOperator[_SampledGraph]):
    """Mean of g g^T with labels drawn from the network's own predictions (seeded)."""

    psd = True
    name = "Fisher matrix with sampled labels"

    def __init__(self, land: Landscape, layer: LayerChoice, samples: int, seed: int) -> None:
        super().__init__(land, layer)
        self.loss = land.output_loss
        self.samples, self.seed = samples, seed

    @override
    def _graph(self, inputs: Inputs, targets: Tensor, start: int) -> _SampledGraph:
        graph = _SampledGraph(self.land, inputs, targets, self.names)
        with torch.no_grad():
            graph.labels = [
                self.loss.sample(
                    graph.outputs, targets, uniform_numbers(self.seed, sample, start, targets)
                )
                for sample in range(self.samples)
            ]
        return graph

    @override
    def _product(self, graph: _SampledGraph, vector: dict[str, Tensor]) -> list[Tensor | None]:
        def metric(outputs: Tensor, _: Tensor, tangent: Tensor) -> Tensor:
            drawn = [self.loss.outer_product(outputs, y, tangent) for y in graph.labels]
            return torch.stack(drawn).mean(0)

        return graph.product(vector, metric)


class EmpiricalFisher(GaussNewton):
    """Mean of g g^T with the given labels: not the Fisher matrix, and far from it (001-E3)."""

    name = "empirical Fisher matrix"

    @override
    def exact_trace(self) -> None:
        """Not that of the Gauss-Newton matrix."""

    @override
    def _product(self, graph: JacobianGraph, vector: dict[str, Tensor]) -> list[Tensor | None]:
        return graph.product(vector, self.loss.outer_product)


class ExactFisher(GaussNewton):
    """Fisher matrix with the expectation over the model's labels taken exactly.

    All three losses are negative log-likelihoods (softmax, Bernoulli, Gaussian) in their natural
    parameters, for which this expectation is the Gauss-Newton matrix.
    """

    name = "Fisher matrix"


def fisher(
    land: Landscape,
    *,
    labels: Literal["exact", "sampled", "empirical"] = "exact",
    samples: int = 1,
    seed: int = 0,
    layer: LayerChoice = None,
) -> GaussNewton | SampledFisher:
    """Fisher matrix of the network's predictive distribution as a matrix-free operator.

    A gradient g is that of one label's negative log-likelihood. For the squared error the
    likelihood is Gaussian with variance d / 2, so that its negative logarithm is the loss.

    >>> import torch
    >>> land = Landscape(torch.nn.Linear(3, 2), (torch.randn(6, 3), torch.arange(6) % 2))
    >>> F = fisher(land, labels="sampled", samples=4, seed=1)
    >>> (F @ torch.ones(8)).shape
    torch.Size([8])

    Args:
        land: The landscape; its loss must be cross_entropy, mse or binary_cross_entropy.
        labels: ``"exact"`` takes the expectation over the model's labels in closed form,
            ``"sampled"`` draws them, ``"empirical"`` uses the given ones (a different matrix).
        samples: Labels drawn per given label when sampled.
        seed: Of the drawn labels.
        layer: As for :func:`~curvbound.curvature.hessian.hessian`.
    """
    if labels == "exact":
        return ExactFisher(land, layer)
    if labels == "empirical":
        return EmpiricalFisher(land, layer)
    if labels != "sampled":
        raise CurvboundError(f"labels must be exact, sampled or empirical, not '{labels}'.")
    if samples < 1:
        raise CurvboundError(f"samples must be at least 1, not {samples}.")
    return SampledFisher(land, layer, samples, seed)
