"""Where examples come from, so that two parts of one data set can be seen to overlap."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Origin"]


@dataclass(frozen=True, eq=False)
class Origin:
    """The rows of a root data set that a set of examples was made from.

    Relabelling, merging classes and scaling keep the origin: the rows stay the same ones.

    Attributes:
        key: Content hash of the root data set.
        count: Number of rows of the root data set.
        rows: Row numbers in the root, one per example; ``None`` means all rows in order.
    """

    key: str
    count: int
    rows: Tensor | None = None

    def take(self, rows: Tensor) -> Origin:
        """The origin of a selection of these examples."""
        rows = rows.cpu()
        return Origin(self.key, self.count, rows if self.rows is None else self.rows[rows])

    def overlap(self, other: Origin) -> int:
        """Number of distinct root rows in both; 0 when the roots differ."""
        if self.key != other.key:
            return 0
        return int((self._mask() & other._mask()).sum())

    def _mask(self) -> Tensor:
        if self.rows is None:
            return torch.ones(self.count, dtype=torch.bool)
        mask = torch.zeros(self.count, dtype=torch.bool)
        mask[self.rows] = True
        return mask
