"""Numbers that were estimated, with their uncertainty and their cost."""

from dataclasses import dataclass

__all__ = ["Estimate"]


@dataclass(frozen=True)
class Estimate:
    """A number together with how well it is known and what it took to find out.

    Attributes:
        value: The estimate.
        stderr: Standard error of ``value``; 0.0 when it was computed exactly.
        samples: Independent samples behind ``value``; 0 when it was computed exactly.
        seed: Seed of the samples; ``None`` when there was no randomness.
        matvecs: Matrix-vector products spent (a block of b vectors counts b).
    """

    value: float
    stderr: float = 0.0
    samples: int = 0
    seed: int | None = None
    matvecs: int = 0

    @property
    def exact(self) -> bool:
        """Whether ``value`` carries no sampling error."""
        return self.samples == 0

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{self.value:.6g}" if self.exact else f"{self.value:.6g} ± {self.stderr:.2g}"
