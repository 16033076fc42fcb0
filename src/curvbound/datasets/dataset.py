"""A data set: training examples, test examples where there are any, and where they came from."""

from __future__ import annotations

from dataclasses import dataclass, replace

from curvbound.datasets.examples import Examples
from curvbound.datasets.scaling import Scaling, ScalingChoice

__all__ = ["Dataset"]

# The test part draws its random labels from a stream that no ordinary training seed reaches.
TEST_SEED_OFFSET = 1 << 32


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test examples with the same classes and the same scaling.

    Attributes:
        name: The name or file it was loaded by.
        train: Training examples.
        test: Test examples, or ``None`` if the data set has none.
        class_names: One name per class.
        source: How the files were obtained.
        location: The file or folder they are in.
    """

    name: str
    train: Examples
    test: Examples | None
    class_names: tuple[str, ...]
    source: str
    location: str

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.train.classes

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return self.train.shape

    @property
    def scaling(self) -> Scaling:
        """The scaling of the inputs; says on what it was fitted, if it was."""
        return self.train.scaling

    def merge(self, classes: int) -> Dataset:
        """Neighbouring classes merged into fewer, see `Examples.merge`."""
        groups: list[list[str]] = [[] for _ in range(classes)]
        train = self.train.merge(classes)
        for label, name in enumerate(self.class_names):
            groups[label * classes // self.classes].append(name)
        return replace(
            self,
            train=train,
            test=self.test and self.test.merge(classes),
            class_names=tuple("+".join(group) for group in groups),
        )

    def random_labels(self, seed: int = 0) -> Dataset:
        """Uniform independent labels in both parts, see `Examples.random_labels`."""
        return replace(
            self,
            train=self.train.random_labels(seed),
            test=self.test and self.test.random_labels(seed + TEST_SEED_OFFSET),
        )

    def scaled(self, scaling: ScalingChoice) -> Dataset:
        """Both parts with the same scaling, see `Examples.scaled`."""
        return replace(
            self, train=self.train.scaled(scaling), test=self.test and self.test.scaled(scaling)
        )

    def summary(self) -> dict[str, object]:
        """What the data set is, as plain values: sizes, shape, classes, hashes, scaling."""
        return {
            "name": self.name,
            "source": self.source,
            "location": self.location,
            "shape": list(self.shape),
            "classes": self.classes,
            "class_names": list(self.class_names),
            "scaling": {
                "name": self.scaling.name,
                "shift": list(self.scaling.shift),
                "scale": list(self.scaling.scale),
                "fitted": self.scaling.fitted_on is not None,
            },
            "train": _part_summary(self.train),
            "test": self.test and _part_summary(self.test),
        }


def _part_summary(part: Examples) -> dict[str, object]:
    return {"examples": len(part), "class_counts": part.class_counts, "hash": part.hash}
