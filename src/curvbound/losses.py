"""Cross-entropy, squared error and binary cross-entropy with their output derivatives."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional
from typing_extensions import override

from curvbound.errors import CurvboundError
from curvbound.loss_types import CustomLoss, Loss, OutputLoss

__all__ = [
    "BinaryCrossEntropy",
    "CrossEntropy",
    "CustomLoss",
    "Loss",
    "OutputLoss",
    "SquaredError",
    "resolve_loss",
]

LossLike = str | Callable[[Tensor, Tensor], Tensor]

IGNORED_LABEL = -100
"""Class labels with this value do not take part (the convention of torch and of Hugging Face)."""


class CrossEntropy(OutputLoss):
    """Softmax cross-entropy with integer labels.

    Outputs are ``(N, C)``, ``(N, C, d1, ...)`` as in torch, or ``(N, d1, ..., C)`` as language
    models return them; targets are ``(N,)`` or ``(N, d1, ...)``. Where both readings fit, torch's
    holds. Labels -100 are ignored.
    """

    name = "cross_entropy"

    @override
    def count(self, targets: Tensor) -> int:
        return int((targets != IGNORED_LABEL).sum())

    @override
    def mean(self, outputs: Tensor, targets: Tensor) -> Tensor:
        total = functional.cross_entropy(
            self._rows(outputs, targets),
            targets.reshape(-1),
            ignore_index=IGNORED_LABEL,
            reduction="sum",
        )
        return total / max(self.count(targets), 1)

    @override
    def check(self, outputs: Tensor, targets: Tensor, labels: Tensor | None = None) -> None:
        labels = targets if labels is None else labels
        if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
            raise CurvboundError(
                f"cross_entropy needs integer class labels, but the targets are {labels.dtype}: "
                "pass labels as int64, or use loss='mse' or 'binary_cross_entropy'."
            )
        classes = outputs.shape[self._class_dimension(outputs, targets)]
        counted = labels[labels != IGNORED_LABEL]
        if counted.numel() and (int(counted.min()) < 0 or int(counted.max()) >= classes):
            raise CurvboundError(
                f"Labels run from {int(counted.min())} to {int(counted.max())} but the network has "
                f"{classes} outputs: labels must lie in 0 ... {classes - 1}."
            )

    @override
    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self._unrows(self._row_gradient(outputs, targets), outputs, targets)

    @override
    def hessian_product(self, outputs: Tensor, targets: Tensor, vector: Tensor) -> Tensor:
        p = self._probabilities(outputs, targets)
        weighted = p * self._rows(vector, targets)
        # A v = p * v - p (p . v), which never forms the C x C matrix diag(p) - p p^T.
        return self._unrows(weighted - p * weighted.sum(1, keepdim=True), outputs, targets)

    @override
    def hessian_factor(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """C - 1 square roots per position.

        A = diag(s) (I - s s^T) diag(s) with s = sqrt(p) a unit vector. The Householder reflection
        that maps s to the last axis has an orthonormal basis of the complement of s in its other
        C - 1 columns, e_j - (s + e_C) s_j / (1 + s_C): no cancellation because s >= 0.
        """
        s = self._probabilities(outputs, targets).sqrt()
        rows, classes = s.shape
        shifted = s.clone()
        shifted[:, -1] += 1
        coefficients = s[:, :-1] / (1 + s[:, -1:])
        factor = -coefficients.T.unsqueeze(2) * (s * shifted).unsqueeze(0)
        diagonal = torch.arange(classes - 1, device=s.device)
        factor[diagonal, :, diagonal] += s[:, :-1].T
        examples = outputs.shape[0]
        positions = rows // examples if examples else 1
        if positions > 1:
            # Different positions of one example must not share a column: their product would mix.
            place = torch.eye(positions, dtype=s.dtype, device=s.device)
            factor = factor.reshape(classes - 1, examples, positions, classes)
            factor = torch.einsum("knpc,pq->qknpc", factor, place)
            factor = factor.reshape(positions * (classes - 1), rows, classes)
        dimension = self._class_dimension(outputs, targets)
        moved = outputs.movedim(dimension, -1).shape
        return factor.reshape(len(factor), *moved).movedim(-1, dimension + 1)

    @override
    def sample(self, outputs: Tensor, targets: Tensor, uniform: Tensor) -> Tensor:
        cumulated = self._rows(outputs, targets).to(uniform.dtype).softmax(1).cumsum(1)
        drawn = torch.searchsorted(cumulated, uniform.reshape(-1, 1), right=True)
        drawn = drawn.clamp(max=cumulated.shape[1] - 1).reshape(targets.shape)
        return torch.where(targets == IGNORED_LABEL, targets, drawn)

    @override
    def outer_product(self, outputs: Tensor, targets: Tensor, vector: Tensor) -> Tensor:
        g = self._row_gradient(outputs, targets)
        inner = (g * self._rows(vector, targets)).sum(1, keepdim=True)
        return self._unrows(g * inner, outputs, targets)

    @staticmethod
    def _class_dimension(outputs: Tensor, targets: Tensor) -> int:
        if outputs.dim() > 1 and outputs.shape[:1] + outputs.shape[2:] == targets.shape:
            return 1
        if outputs.dim() > 1 and outputs.shape[:-1] == targets.shape:
            return outputs.dim() - 1
        raise CurvboundError(
            f"Outputs of shape {tuple(outputs.shape)} and labels of shape {tuple(targets.shape)} "
            "do not fit: cross_entropy needs one label per example (or position) and one output "
            "per class."
        )

    def _rows(self, outputs: Tensor, targets: Tensor) -> Tensor:
        dimension = self._class_dimension(outputs, targets)
        return outputs.movedim(dimension, -1).reshape(-1, outputs.shape[dimension])

    def _unrows(self, rows: Tensor, outputs: Tensor, targets: Tensor) -> Tensor:
        dimension = self._class_dimension(outputs, targets)
        moved = outputs.movedim(dimension, -1).shape
        return rows.reshape(moved).movedim(-1, dimension)

    def _probabilities(self, outputs: Tensor, targets: Tensor) -> Tensor:
        p = self._rows(outputs, targets).softmax(1)
        # Rows of ignored labels become zero, and with them everything that is built from them.
        return p * (targets != IGNORED_LABEL).reshape(-1, 1)

    def _row_gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        # The label's entry p_y - 1 would cancel for confident predictions: it is minus the sum of
        # the others (002-E12).
        labels = targets.reshape(-1, 1).clamp(min=0)
        others = self._probabilities(outputs, targets).scatter(1, labels, 0.0)
        return others.scatter(1, labels, -others.sum(1, keepdim=True))


class SquaredError(OutputLoss):
    """Mean squared error, the mean over all elements as in ``torch.nn.MSELoss``.

    An example with d outputs has the loss |z - y|^2 / d: the negative log-likelihood, up to a
    constant, of a Gaussian with variance d / 2. Its output Hessian is (2 / d) I.
    """

    name = "mse"

    @override
    def mean(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return functional.mse_loss(outputs, targets.to(outputs.dtype))

    @override
    def check(self, outputs: Tensor, targets: Tensor, labels: Tensor | None = None) -> None:
        _check_same_shape(self.name, outputs, targets)

    @override
    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self._scale(outputs) * (outputs - targets.to(outputs.dtype))

    @override
    def hessian_product(self, outputs: Tensor, targets: Tensor, vector: Tensor) -> Tensor:
        return self._scale(outputs) * vector

    @override
    def hessian_factor(self, outputs: Tensor, targets: Tensor) -> Tensor:
        root = torch.full_like(outputs, math.sqrt(self._scale(outputs)))
        return _one_column_per_element(root)

    @override
    def sample(self, outputs: Tensor, targets: Tensor, uniform: Tensor) -> Tensor:
        # Half a step away from 0, whose normal quantile is infinite.
        noise: Tensor = torch.special.ndtri(uniform + 2.0**-54).to(outputs.dtype)
        return outputs + noise / math.sqrt(self._scale(outputs))

    @override
    def outer_product(self, outputs: Tensor, targets: Tensor, vector: Tensor) -> Tensor:
        g = self.gradient(outputs, targets)
        inner = (g * vector).reshape(len(g), -1).sum(1)
        return g * inner.reshape(-1, *[1] * (outputs.dim() - 1))

    @staticmethod
    def _scale(outputs: Tensor) -> float:
        return 2.0 * len(outputs) / outputs.numel()


class BinaryCrossEntropy(OutputLoss):
    """Logistic loss of logits with targets in [0, 1], the mean over all elements."""

    name = "binary_cross_entropy"

    @override
    def count(self, targets: Tensor) -> int:
        return targets.numel()

    @override
    def mean(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(outputs, self._fit(outputs, targets))

    @override
    def check(self, outputs: Tensor, targets: Tensor, labels: Tensor | None = None) -> None:
        if outputs.numel() != targets.numel() or len(outputs) != len(targets):
            _check_same_shape(self.name, outputs, targets)
        labels = targets if labels is None else labels
        if labels.numel() and (float(labels.min()) < 0 or float(labels.max()) > 1):
            raise CurvboundError(
                f"binary_cross_entropy needs targets in [0, 1], but they run from "
                f"{float(labels.min()):g} to {float(labels.max()):g}."
            )

    @override
    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return outputs.sigmoid() - self._fit(outputs, targets)

    @override
    def hessian_product(self, outputs: Tensor, targets: Tensor, vector: Tensor) -> Tensor:
        return self._variance(outputs) * vector

    @override
    def hessian_factor(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return _one_column_per_element(self._variance(outputs).sqrt())

    @override
    def sample(self, outputs: Tensor, targets: Tensor, uniform: Tensor) -> Tensor:
        return (uniform.reshape(outputs.shape) < outputs.sigmoid()).to(outputs.dtype)

    @override
    def outer_product(self, outputs: Tensor, targets: Tensor, vector: Tensor) -> Tensor:
        return self.gradient(outputs, targets).square() * vector

    @staticmethod
    def _fit(outputs: Tensor, targets: Tensor) -> Tensor:
        return targets.to(outputs.dtype).reshape(outputs.shape)

    @staticmethod
    def _variance(outputs: Tensor) -> Tensor:
        return outputs.sigmoid() * (-outputs).sigmoid()


_NAMED: dict[str, type[OutputLoss]] = {
    kind.name: kind for kind in (CrossEntropy, SquaredError, BinaryCrossEntropy)
}


def resolve_loss(loss: LossLike | Loss) -> Loss:
    """Turn a name or a callable into a :class:`Loss`.

    >>> resolve_loss("mse").name
    'mse'
    """
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str):
        if loss not in _NAMED:
            raise CurvboundError(
                f"Unknown loss '{loss}': use {', '.join(sorted(_NAMED))}, or a function of "
                "(outputs, targets) that returns the mean."
            )
        return _NAMED[loss]()
    if not callable(loss):
        raise CurvboundError(f"The loss must be a name or a function, not {type(loss).__name__}.")
    return CustomLoss(loss)


def _check_same_shape(name: str, outputs: Tensor, targets: Tensor) -> None:
    if outputs.shape != targets.shape:
        raise CurvboundError(
            f"{name} needs targets of the outputs' shape, but outputs are {tuple(outputs.shape)} "
            f"and targets {tuple(targets.shape)}."
        )


def _one_column_per_element(roots: Tensor) -> Tensor:
    """Spread ``roots`` (N, ...) over K = elements per example columns with one element each."""
    size = roots[0].numel() if len(roots) else 0
    columns = torch.eye(size, dtype=roots.dtype, device=roots.device).unsqueeze(1)
    return (columns * roots.reshape(1, len(roots), size)).reshape(size, *roots.shape)
