"""Points in the accuracy-complexity plane of 000, and what the best of them reach together."""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = [
    "BASELINE",
    "DIAGONAL",
    "FULL",
    "LOWER_BOUND",
    "LOW_RANK",
    "Point",
    "complexity_at",
    "pareto",
]

BASELINE, DIAGONAL, FULL = "baseline", "diagonal Hessian", "full layer-wise Hessian"
LOW_RANK, LOWER_BOUND = "low-rank Fisher", "lower bound"


@dataclass(frozen=True)
class Point:
    """One pair of prior and posterior in the picture.

    The accuracy comes from a few weight draws, so no point is a certificate (000-E8).

    Attributes:
        method: How the posterior was made.
        kind: ``heuristic``, or ``oracle`` where the prior was fitted to the data.
        prior_variance: lambda; None for the lower bound, which has one per parameter.
        beta: Weight of the KL term; None for the baseline, which has none.
        accuracy: Estimated accuracy of the randomised network on the training data.
        kl: KL divergence in nats.
        complexity: ``sqrt((KL + charge + ln(2(N-1)/delta)) / (2N))`` (000 eq. 3).
        charge: Nats for the choice of lambda among the points of its grid (000-E7).
    """

    method: str
    kind: Literal["heuristic", "oracle"]
    prior_variance: float | None
    beta: float | None
    accuracy: float
    kl: float
    complexity: float
    charge: float

    @property
    def error_bound(self) -> float:
        """Right side of 000 eq. 3 with the estimated accuracy; may exceed 1."""
        return 1.0 - self.accuracy + self.complexity


def pareto(points: Iterable[Point]) -> list[Point]:
    """Points that no other beats in both accuracy and complexity, by rising accuracy.

    >>> def at(accuracy, complexity):
    ...     return Point("", "heuristic", None, None, accuracy, 0.0, complexity, 0.0)
    >>> [p.accuracy for p in pareto([at(0.9, 0.5), at(0.8, 0.6), at(0.7, 0.1)])]
    [0.7, 0.9]
    """
    kept: list[Point] = []
    for point in sorted(points, key=lambda p: (-p.accuracy, p.complexity)):
        if not kept or point.complexity < kept[-1].complexity:
            kept.append(point)
    return kept[::-1]


def complexity_at(points: Iterable[Point], accuracy: float) -> float:
    """Smallest complexity at an accuracy, between points by mixing; infinite if not reached.

    A mixture of two posteriors has the mean of their accuracies and, KL being convex, at most the
    mean of their KL, which is linear in the squared complexity. More points never make it worse.
    """
    hull = _lower_hull([(p.accuracy, p.complexity**2) for p in pareto(points)])
    if accuracy > hull[-1][0]:
        return math.inf
    if accuracy <= hull[0][0]:
        return math.sqrt(hull[0][1])
    for (left, low), (right, high) in itertools.pairwise(hull):
        if accuracy <= right:
            return math.sqrt(low + (high - low) * (accuracy - left) / (right - left))
    return math.inf


def _lower_hull(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Lower convex hull of points sorted by their first coordinate."""
    hull: list[tuple[float, float]] = []
    for x, y in points:
        while len(hull) > 1:
            (a, b), (c, d) = hull[-2:]
            if (d - b) * (x - a) < (y - b) * (c - a):
                break
            hull.pop()
        hull.append((x, y))
    return hull
