"""The five-layer network with two parameters of 003 section 2 (Fig. 1)."""

import math

import torch
from torch import Tensor, nn

from curvbound.errors import CurvboundError
from curvbound.networks.shapes import Shape

__all__ = ["SharedSigmoidNetwork", "toy"]


class SharedSigmoidNetwork(nn.Module):
    """Five layers of two sigmoid neurons that all have the weight matrix [[w1, w2], [-w2, w1]].

    003 says that the variables of the layers are shared until two are left, not how (003-C13).
    In this reading each layer scales and turns the plane and then squashes it, so that even two
    parameters give a landscape with many minima; a symmetric [[w1, w2], [w2, w1]] could only
    ever divide the plane along its diagonal. There are no biases, and the fifth layer's two
    outputs, before any sigmoid, are the logits.

    Attributes:
        weight: The parameters (w1, w2), as a 1 x 2 matrix.
    """

    layers = 5

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(1, 2))

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, 2) of inputs with two features each."""
        w1, w2 = self.weight[0]
        matrix = torch.stack([torch.stack([w1, w2]), torch.stack([-w2, w1])])
        hidden = x.flatten(1) @ matrix.T
        for _ in range(self.layers - 1):
            hidden = torch.sigmoid(hidden) @ matrix.T
        return hidden


def toy(name: str, input_shape: Shape, classes: int) -> SharedSigmoidNetwork:
    """The toy network; only for two features and two classes."""
    if math.prod(input_shape) != 2 or classes != 2:
        raise CurvboundError(
            f"{name} takes two features and tells two classes apart, not inputs of shape "
            f"{input_shape} and {classes} classes: choose another network, such as F-600."
        )
    return SharedSigmoidNetwork()
