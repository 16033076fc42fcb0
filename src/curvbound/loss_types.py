"""What a loss must offer: a mean over labels, and its derivatives with respect to the output.

A *term* is one summand of the mean: one label. Cross-entropy has a term per class label (one per
example, or one per position of a sequence), binary cross-entropy one per output element, the
squared error one per example (its label is the whole target vector). Output derivatives are those
of the **sum** over the terms of a batch; divide by :meth:`Loss.count` for the mean.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor
from typing_extensions import override

from curvbound.errors import CurvboundError

__all__ = ["CustomLoss", "Loss", "OutputLoss"]


class Loss(ABC):
    """A mean over the terms of a batch, ``loss(outputs, targets)``."""

    name: str

    @abstractmethod
    def mean(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of a batch, a differentiable scalar."""

    def count(self, targets: Tensor) -> int:
        """How many terms the mean of a batch with these targets has."""
        return len(targets)

    def sum(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The sum of the terms of a batch."""
        return self.mean(outputs, targets) * self.count(targets)

    @abstractmethod
    def check(self, outputs: Tensor, targets: Tensor, labels: Tensor | None = None) -> None:
        """Refuse targets that do not fit the network's outputs.

        Args:
            outputs: Outputs of some examples.
            targets: Their targets.
            labels: Targets of other examples to check against these outputs; None: ``targets``.
        """


class OutputLoss(Loss):
    """A loss that is convex in the output, with its output derivatives in closed form.

    Each loss views outputs as a matrix with one row per term; gradient and Hessian act row by row.
    All arguments and results keep the shape of ``outputs``.
    """

    @abstractmethod
    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Derivative of the summed loss with respect to the outputs."""

    @abstractmethod
    def hessian_product(self, outputs: Tensor, targets: Tensor, vector: Tensor) -> Tensor:
        """Output Hessian A of the summed loss times ``vector``."""

    @abstractmethod
    def hessian_factor(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Square roots S_1 ... S_K, shape ``(K, *outputs.shape)``.

        For every example on its own, sum_k S_k S_k^T is its output Hessian A (001 eq. 27). K is as
        small as the structure allows: C - 1 per position for cross-entropy.
        """

    @abstractmethod
    def sample(self, outputs: Tensor, targets: Tensor, uniform: Tensor) -> Tensor:
        """Labels drawn from the network's own predictive distribution, shaped like ``targets``.

        Args:
            outputs: The network's outputs.
            targets: The given labels, for their shape.
            uniform: Uniform random numbers in [0, 1), shaped like ``targets``; the draw of a label
                depends on its own number only, so that batching does not change it.
        """

    @abstractmethod
    def outer_product(self, outputs: Tensor, targets: Tensor, vector: Tensor) -> Tensor:
        """Sum over terms of (g g^T) ``vector`` with g the term's gradient: the empirical Fisher."""


class CustomLoss(Loss):
    """Any twice-differentiable function of ``(outputs, targets)`` that is a mean over examples."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)

    @override
    def mean(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.function(outputs, targets)

    @override
    def check(self, outputs: Tensor, targets: Tensor, labels: Tensor | None = None) -> None:
        """Compare the loss of a batch with the size-weighted mean of its two halves."""
        if labels is not None:
            return
        with torch.no_grad():
            whole = self.mean(outputs, targets)
            if whole.numel() != 1:
                raise CurvboundError(
                    f"The loss '{self.name}' returns {tuple(whole.shape)} values: it must return "
                    "one number, the mean over the examples of a batch."
                )
            size = len(targets)
            if size < 2:
                return
            half = (size + 1) // 2
            parts = half * self.mean(outputs[:half], targets[:half])
            parts = (parts + (size - half) * self.mean(outputs[half:], targets[half:])) / size
            tolerance = 1e3 * torch.finfo(whole.dtype).eps
            if not torch.allclose(whole, parts, rtol=tolerance, atol=tolerance):
                raise CurvboundError(
                    f"The loss '{self.name}' is not a mean over examples: it is {float(whole):.6g} "
                    f"on a batch but {float(parts):.6g} averaged over its halves; use "
                    "reduction='mean'."
                )
