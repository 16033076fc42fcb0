"""Second moments of layer inputs, E[x x^T] with the bias as last column."""

import torch
from torch import Tensor

from curvbound.curvature.patches import patch_sum, row_moment, row_moment_pays
from curvbound.curvature.sums import SymmetricSum
from curvbound.curvature.uses import BIAS, WEIGHT, AffineUse, ConvUse, DenseUse, NormUse

__all__ = ["InputMoment"]


class InputMoment:
    """Running sum over examples and positions of x x^T, a one appended for the bias."""

    def __init__(self, use: AffineUse | NormUse, like: Tensor) -> None:
        self.weight, self.bias = WEIGHT in use.roles, BIAS in use.roles
        groups, width = _shape(use)
        self._groups, self._width = groups, width
        self._second = SymmetricSum(groups, width, like) if self.weight else None
        self._first = torch.zeros(groups, width, dtype=torch.float64, device=like.device)
        self._count = 0

    def add(self, use: AffineUse | NormUse) -> None:
        """Add the inputs of one call."""
        self._count += use.examples * use.positions
        if self._second is None:
            return
        if isinstance(use, DenseUse):
            rows = use.rows.reshape(-1, use.width)
            self._second.add(rows.T.unsqueeze(0))
            first = rows.sum(0, keepdim=True)
        elif isinstance(use, ConvUse):
            self._add_patches(use)
            first = patch_sum(use.conv, use.inputs)
        else:
            assert isinstance(use, NormUse)  # for the type checker
            normalised = use.normalised.transpose(0, 1).reshape(self._groups, 1, -1)
            self._second.add(normalised)
            first = normalised.sum(2)
        if self.bias:
            self._first += first

    def _add_patches(self, use: ConvUse) -> None:
        assert self._second is not None  # for the type checker
        count = use.examples * use.positions
        if row_moment_pays(use.conv, use.inputs, use.output_shape[2:]):
            self._second.add_product(row_moment(use.conv, use.inputs), count)
        else:
            self._second.add(use.input_columns().permute(1, 2, 0, 3).flatten(2))

    def finish(self) -> Tensor:
        """The sum, ``(groups, n, n)`` with n including the bias, in double precision."""
        count = torch.full_like(self._first[:, :1, None], self._count)
        if self._second is None:
            return count
        second = self._second.finish()
        if not self.bias:
            return second
        size = self._width
        joined = second.new_empty(self._groups, size + 1, size + 1)
        joined[:, :size, :size] = second
        joined[:, :size, size] = joined[:, size, :size] = self._first
        joined[:, size:, size:] = count
        return joined


def _shape(use: AffineUse | NormUse) -> tuple[int, int]:
    if isinstance(use, NormUse):
        return use.features, 1
    return use.groups, use.width
