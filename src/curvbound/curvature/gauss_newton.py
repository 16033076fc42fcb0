"""The generalised Gauss-Newton matrix of the mean loss."""

from torch import Tensor
from typing_extensions import override

from curvbound.batches import Inputs
from curvbound.curvature.exact_trace import gauss_newton_trace
from curvbound.curvature.graphs import JacobianGraph
from curvbound.curvature.operators import CurvatureOperator
from curvbound.landscape import Landscape, LayerChoice

__all__ = ["GaussNewton", "gauss_newton"]


class GaussNewton(CurvatureOperator[JacobianGraph]):
    """Mean of J^T A J with J the output Jacobian and A the output Hessian (001 eqs. 28, 29)."""

    psd = True
    name = "Gauss-Newton matrix"

    def __init__(self, land: Landscape, layer: LayerChoice) -> None:
        super().__init__(land, layer)
        self.loss = land.output_loss

    def exact_trace(self) -> float | None:
        """The trace without any probe, at C - 1 backward passes."""
        return gauss_newton_trace(self.land, self.names)

    @override
    def _graph(self, inputs: Inputs, targets: Tensor, start: int) -> JacobianGraph:
        return JacobianGraph(self.land, inputs, targets, self.names)

    @override
    def _product(self, graph: JacobianGraph, vector: dict[str, Tensor]) -> list[Tensor | None]:
        return graph.product(vector, self.loss.hessian_product)


def gauss_newton(land: Landscape, *, layer: LayerChoice = None) -> GaussNewton:
    """Generalised Gauss-Newton matrix of the mean loss as a matrix-free operator.

    Positive semi-definite. For piecewise-linear networks its layer blocks are those of the Hessian
    (001-E3), for softmax cross-entropy it is the Fisher matrix with the model's labels.

    >>> import torch
    >>> land = Landscape(torch.nn.Linear(3, 2), (torch.randn(6, 3), torch.arange(6) % 2))
    >>> G = gauss_newton(land, layer="weight")
    >>> v = torch.arange(6.0)
    >>> G.shape, bool(v @ (G @ v) > 0)
    ((6, 6), True)

    Args:
        land: The landscape; its loss must be cross_entropy, mse or binary_cross_entropy.
        layer: As for :func:`~curvbound.curvature.hessian.hessian`.
    """
    return GaussNewton(land, layer)
