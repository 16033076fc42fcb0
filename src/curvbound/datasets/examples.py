"""Labelled examples in memory: selection, splits, relabelling and a content hash."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from curvbound.datasets.origin import Origin
from curvbound.datasets.scaling import SCALINGS, Scaling, ScalingChoice, as_scaling
from curvbound.errors import CurvboundError

__all__ = ["Examples"]

HASH_BYTES = 1 << 26


@dataclass(frozen=True, eq=False)
class Examples:
    """Inputs with their class labels, held in memory; ``X, y = examples`` unpacks them.

    The tensors must not be changed in place: the content hash is computed once.

    >>> import torch
    >>> examples = Examples(torch.rand(6, 3), torch.tensor([0, 1, 2, 0, 1, 2]), classes=3)
    >>> first, second = examples.split(0.5, 0.5, seed=0)
    >>> len(first), len(second), first.overlap(second), first.overlap(examples)
    (3, 3, 0, 3)

    Attributes:
        inputs: Floating point tensor ``(N, ...)``.
        targets: Labels ``(N,)``, int64, between 0 and ``classes - 1``.
        classes: Number of classes, at least 2; not all of them need occur.
        name: What to call them in messages and reports.
        scaling: The scaling already applied to the inputs.
        origin: The rows of a root data set they were made from; ``None`` if they are a root.

    Raises:
        CurvboundError: If the set is empty, lengths differ, labels are out of range or an input
            is not finite.
    """

    inputs: Tensor
    targets: Tensor
    classes: int
    name: str = "examples"
    scaling: Scaling = SCALINGS["none"]
    origin: Origin | None = None

    def __post_init__(self) -> None:
        _check(self)

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.inputs, self.targets))

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.inputs.shape[1:])

    @property
    def class_counts(self) -> list[int]:
        """Number of examples of each class."""
        return torch.bincount(self.targets, minlength=self.classes).tolist()

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the content: dtypes, shapes, values and number of classes.

        Neither the name, nor the device, nor the memory layout changes it; one changed pixel or
        label does.
        """
        digest = hashlib.sha256(f"examples classes={self.classes}".encode())
        for tensor in self:
            digest.update(f" {tensor.dtype} {tuple(tensor.shape)} ".encode())
            rows = max(1, HASH_BYTES // max(1, tensor[0].numel() * tensor.element_size()))
            for start in range(0, len(tensor), rows):
                block = tensor[start : start + rows].detach().cpu().contiguous()
                digest.update(block.view(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()

    @property
    def lineage(self) -> Origin:
        """The origin, which for a root data set is itself."""
        return self.origin or Origin(self.hash, len(self))

    def overlap(self, other: Examples | Origin) -> int:
        """Number of rows of one root data set that both were made from."""
        return self.lineage.overlap(other if isinstance(other, Origin) else other.lineage)

    def to(self, device: torch.device | str) -> Examples:
        """The same examples on another device."""
        return replace(self, inputs=self.inputs.to(device), targets=self.targets.to(device))

    def take(self, rows: Tensor | Sequence[int], *, name: str | None = None) -> Examples:
        """The examples in the given rows, in that order.

        Raises:
            CurvboundError: If there are no rows or one is out of range.
        """
        index = torch.as_tensor(rows, dtype=torch.int64, device=self.targets.device)
        if index.numel() and not (int(index.min()) >= 0 and int(index.max()) < len(self)):
            raise CurvboundError(
                f"cannot take row {int(index.min())} to {int(index.max())} of {self.name}: it has "
                f"rows 0 to {len(self) - 1}"
            )
        return replace(
            self,
            inputs=self.inputs[index],
            targets=self.targets[index],
            name=name or f"{self.name}, {len(index)} rows",
            origin=self.lineage.take(index),
        )

    def split(self, *sizes: float, seed: int = 0) -> tuple[Examples, ...]:
        """Disjoint random parts, drawn without looking at inputs or labels.

        Args:
            sizes: Counts (all ``int``) or fractions (all ``float``) of the parts; what they do
                not use up is left out. Fractions that sum to 1 use every row.
            seed: The same seed gives the same rows.

        Raises:
            CurvboundError: If a part would be empty or the parts do not fit in the set.
        """
        ends = _part_ends(sizes, len(self), self.name)
        order = _generator(seed, "split").permutation(len(self))
        return tuple(
            self.take(
                torch.from_numpy(np.sort(order[start:end])),
                name=f"{self.name}, part {part} of {len(sizes)} (seed {seed})",
            )
            for part, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True), 1)
        )

    def merge(self, classes: int) -> Examples:
        """Neighbouring classes merged into fewer: of 10, 2 are 0-4 and 5-9, 5 are pairs (000-C13).

        Raises:
            CurvboundError: If ``classes`` is below 2 or above the number of classes.
        """
        if not 2 <= classes <= self.classes:
            raise CurvboundError(
                f"cannot merge the {self.classes} classes of {self.name} into {classes}: choose "
                f"2 to {self.classes}"
            )
        merged = self.targets * classes // self.classes
        return self._relabelled(merged, f"{self.name} merged to {classes} classes", classes)

    def random_labels(self, seed: int = 0) -> Examples:
        """The same inputs with labels drawn uniformly and independently.

        The true risk of every classifier is then exactly ``1 - 1/classes`` (CERT-9).
        """
        drawn = _generator(seed, "random labels").integers(self.classes, size=len(self))
        return self._relabelled(self._on_device(drawn), f"{self.name} random labels (seed {seed})")

    def label_noise(self, rate: float, seed: int = 0) -> Examples:
        """Each label replaced, with probability ``rate``, by a uniform draw from all classes.

        Replacements are independent, so independent examples stay so; a share
        ``rate * (1 - 1/classes)`` of the labels changes on average.

        Raises:
            CurvboundError: If the rate is not between 0 and 1.
        """
        if not 0 <= rate <= 1:
            raise CurvboundError(f"the label noise rate must be between 0 and 1, not {rate}")
        generator = _generator(seed, "label noise")
        replaced = self._on_device(generator.random(len(self)) < rate)
        drawn = self._on_device(generator.integers(self.classes, size=len(self)))
        noisy = torch.where(replaced, drawn, self.targets)
        return self._relabelled(noisy, f"{self.name} label noise {rate:g} (seed {seed})")

    def scaled(self, scaling: ScalingChoice) -> Examples:
        """The examples with a scaling applied to their inputs.

        Raises:
            CurvboundError: If they are already scaled, or a pixel scaling is asked for inputs
                outside [0, 1].
        """
        chosen = as_scaling(scaling)
        if not self.scaling.identity:
            raise CurvboundError(
                f"{self.name} is already scaled ({self.scaling.name}): load it with "
                "scaling='none' to scale it otherwise"
            )
        pixels = chosen == SCALINGS.get(chosen.name) and chosen.name != "none"
        if pixels and not (float(self.inputs.min()) >= 0 and float(self.inputs.max()) <= 1):
            raise CurvboundError(
                f"scaling {chosen.name!r} is for pixels between 0 and 1 but {self.name} has inputs "
                "outside: give your own constants (shift, scale)"
            )
        if chosen.identity:
            return replace(self, scaling=chosen)
        return replace(self, inputs=chosen.apply(self.inputs), scaling=chosen, origin=self.lineage)

    def _on_device(self, values: np.ndarray[tuple[int], np.dtype[np.generic]]) -> Tensor:
        return torch.from_numpy(values).to(self.targets.device)

    def _relabelled(self, targets: Tensor, name: str, classes: int | None = None) -> Examples:
        return replace(
            self,
            targets=targets,
            classes=classes or self.classes,
            name=name,
            origin=self.lineage,
        )


def _check(examples: Examples) -> None:
    inputs, targets, name = examples.inputs, examples.targets, examples.name
    if targets.dim() != 1 or targets.dtype != torch.int64:
        raise CurvboundError(
            f"the labels of {name} must be an int64 vector, not {targets.dtype} of shape "
            f"{tuple(targets.shape)}"
        )
    if inputs.dim() < 2 or not inputs.is_floating_point():
        raise CurvboundError(
            f"the inputs of {name} must be floating point with one row per example, not "
            f"{inputs.dtype} of shape {tuple(inputs.shape)}"
        )
    if len(inputs) != len(targets):
        raise CurvboundError(f"{name} has {len(inputs)} inputs but {len(targets)} labels")
    if inputs.numel() == 0:
        raise CurvboundError(f"{name} is empty: it has inputs of shape {tuple(inputs.shape)}")
    if examples.classes < 2:
        raise CurvboundError(f"{name} has {examples.classes} class: at least 2 are needed")
    low, high = int(targets.min()), int(targets.max())
    if low < 0 or high >= examples.classes:
        raise CurvboundError(
            f"{name} has label {low if low < 0 else high}, out of range for {examples.classes} "
            f"classes (0 to {examples.classes - 1})"
        )
    # A finite sum proves finite terms, and needs no temporary tensor; overflow is looked into.
    if not inputs.sum().isfinite() and not (finite := inputs.isfinite()).all():
        row = int((~finite).flatten(1).any(1).nonzero()[0])
        raise CurvboundError(f"{name} has a NaN or infinite input, first in row {row}")


def _generator(seed: int, purpose: str) -> np.random.Generator:
    """A generator of its own for each purpose, so that equal seeds do not tie them together."""
    if seed < 0:
        raise CurvboundError(f"the seed must not be negative, but is {seed}")
    return np.random.default_rng([seed, zlib.crc32(purpose.encode())])


def _part_ends(sizes: Sequence[float], total: int, name: str) -> list[int]:
    """Where each part ends in a random order of ``total`` rows."""
    counts = all(isinstance(size, int | np.integer) for size in sizes)
    if not sizes or not (counts or all(isinstance(size, float) for size in sizes)):
        raise CurvboundError(
            f"cannot split {name} into {sizes}: give the parts as whole numbers or as fractions"
        )
    sums = np.cumsum(sizes)
    if not np.isfinite(sums).all() or sums[-1] > (total if counts else 1 + 1e-9):
        raise CurvboundError(
            f"cannot split {name} into {sizes}: the parts do not fit in its {total} examples"
        )
    ends = [int(end) if counts else min(total, round(float(end) * total)) for end in sums]
    if min(np.diff([0, *ends])) < 1:
        raise CurvboundError(
            f"cannot split {name} into {sizes}: every part needs at least one of its {total} "
            "examples"
        )
    return ends
