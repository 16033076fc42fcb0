"""The Hessian of the mean loss."""

from torch import Tensor
from typing_extensions import override

from curvbound.batches import Inputs
from curvbound.curvature.exact_trace import gauss_newton_trace
from curvbound.curvature.graphs import HessianGraph
from curvbound.curvature.operators import CurvatureOperator
from curvbound.landscape import Landscape, LayerChoice
from curvbound.losses import OutputLoss

__all__ = ["Hessian", "hessian"]


class Hessian(CurvatureOperator[HessianGraph]):
    """Second derivative of the mean loss by the parameters; indefinite in general."""

    psd = False
    name = "Hessian"

    def exact_trace(self) -> float | None:
        """The trace without any probe where Tr H = Tr G is known (001-E3); None elsewhere."""
        chosen = set(self.names)
        blocks = [name for name, b in self.land.layers.items() if chosen & set(b.parameters)]
        known = isinstance(self.land.loss, OutputLoss)
        if known and all(map(self.land.block_is_gauss_newton, blocks)):
            return gauss_newton_trace(self.land, self.names)
        return None

    @override
    def _graph(self, inputs: Inputs, targets: Tensor, start: int) -> HessianGraph:
        return HessianGraph(self.land, inputs, targets, self.names)

    @override
    def _product(self, graph: HessianGraph, vector: dict[str, Tensor]) -> list[Tensor | None]:
        return graph.product(vector)


def hessian(land: Landscape, *, layer: LayerChoice = None) -> Hessian:
    """Hessian of the mean loss as a matrix-free operator.

    >>> import torch
    >>> land = Landscape(torch.nn.Linear(3, 2), (torch.randn(6, 3), torch.arange(6) % 2))
    >>> H = hessian(land)
    >>> H.shape, (H @ torch.ones(8)).shape, (H @ torch.ones(8, 2)).shape
    ((8, 8), torch.Size([8]), torch.Size([8, 2]))

    Args:
        land: The landscape.
        layer: The layer, parameter, or list of them whose diagonal block is wanted (001-C7); None
            means the whole network. A block costs only what lies between the layer and the loss.
    """
    return Hessian(land, layer)
