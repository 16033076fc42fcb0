"""Whether the patterns of 000's Figures 2 to 4 hold, decided from the points."""

import itertools
import math
from collections.abc import Mapping, Sequence

from curvbound.certificates.pareto import (
    BASELINE,
    DIAGONAL,
    FULL,
    LOWER_BOUND,
    Point,
    complexity_at,
    pareto,
)
from curvbound.papers.p000_panel import Panel
from curvbound.papers.result import Pattern

__all__ = ["bounded_below", "comparison_patterns", "crosses", "feasibility_patterns", "ordered"]

_LEVELS = (0.5, 0.75, 0.9)
"""Accuracies at which methods are compared: shares of the way from guessing to 1."""

_NOISE = 0.02
"""Relative differences in complexity that five weight draws cannot tell apart."""


def crosses(points: Sequence[Point], classes: int, *, limit: float = 1.0) -> bool:
    """Whether a curve reaches an error bound below ``limit`` while the network still classifies.

    A posterior so wide that it guesses has a complexity near 0 and hence a bound below 1 that
    says nothing; every curve ends there. Only accuracies at least half way from guessing to 1
    count.
    """
    kept = _level(classes, 0.5)
    levels = [kept, *(p.accuracy for p in pareto(points) if p.accuracy >= kept)]
    return any(1.0 - level + complexity_at(points, level) < limit for level in levels)


def ordered(points: Mapping[str, Sequence[Point]], classes: int) -> bool:
    """Whether baseline >= diagonal >= full in complexity, at every compared accuracy."""
    return _descending(points, (BASELINE, DIAGONAL, FULL), classes)


def bounded_below(points: Mapping[str, Sequence[Point]], classes: int) -> bool:
    """Whether the lower bound is below the methods with diagonal Gaussians, where compared.

    It need not be: accuracies are those of the real network, the bound is for the quadratic one.
    """
    return all(_descending(points, (m, LOWER_BOUND), classes) for m in (BASELINE, DIAGONAL))


def _descending(
    points: Mapping[str, Sequence[Point]], methods: Sequence[str], classes: int
) -> bool:
    for share in _LEVELS:
        at = [complexity_at(points[method], _level(classes, share)) for method in methods]
        if any(better > worse * (1 + _NOISE) for worse, better in itertools.pairwise(at)):
            return False
    return True


def feasibility_patterns(panels: Sequence[Panel]) -> list[Pattern]:
    """Fig. 2: the lower bound enters the non-vacuous region on MNIST and not on CIFAR."""
    patterns = []
    for panel in panels:
        curve, data = panel.points[LOWER_BOUND], panel.task.data
        found = crosses(curve, panel.classes)
        patterns.append(
            Pattern(
                f"{data}: lower bound crosses the line of error bound 1",
                _yes(panel.task.provable),
                f"{_yes(found)}, best {_best(curve, panel.classes)}",
                found == panel.task.provable,
            )
        )
        below = crosses(curve, panel.classes, limit=1 - 1 / panel.classes)
        patterns.append(
            Pattern(f"{data}: and the line of guessing", "not stated", _yes(below), None)
        )
    return patterns


def comparison_patterns(panels: Sequence[Panel]) -> list[Pattern]:
    """Figs. 3 and 4: who is non-vacuous, and baseline >= diagonal >= full."""
    patterns = []
    for panel in panels:
        data, provable, classes = panel.task.data, panel.task.provable, panel.classes
        for method, points in panel.points.items():
            found = crosses(points, classes)
            patterns.append(
                Pattern(
                    f"{data}: {method} reaches an error bound below 1",
                    _yes(provable) if method in (BASELINE, DIAGONAL, FULL) else "not stated",
                    f"{_yes(found)}, best {_best(points, classes)}",
                    found == provable if method in (BASELINE, DIAGONAL, FULL) else None,
                )
            )
        below = [m for m, p in panel.points.items() if crosses(p, classes, limit=1 - 1 / classes)]
        patterns.append(
            Pattern(
                f"{data}: below guessing ({1 - 1 / classes:g})",
                "not stated",
                ", ".join(below) or "none",
                None,
            )
        )
        patterns.append(
            Pattern(
                f"{data}: complexity baseline >= diagonal >= full at equal accuracy",
                "yes",
                _comparison(panel.points, (BASELINE, DIAGONAL, FULL), classes),
                ordered(panel.points, classes),
            )
        )
        patterns.append(
            Pattern(
                f"{data}: lower bound below baseline and diagonal at equal accuracy",
                "yes",
                _comparison(panel.points, (LOWER_BOUND,), classes),
                bounded_below(panel.points, classes),
            )
        )
        valid = ", ".join(f"{c['method']} {_up(c['bound'])}" for c in panel.certificates)
        patterns.append(Pattern(f"{data}: certified error bounds", "none given", valid, None))
    return patterns


def _level(classes: int, share: float) -> float:
    return 1 / classes + share * (1 - 1 / classes)


def _best(points: Sequence[Point], classes: int) -> str:
    """Smallest right side of 000 eq. 3 while the network still classifies."""
    kept = _level(classes, 0.5)
    levels = [kept, *(p.accuracy for p in points if p.accuracy >= kept)]
    best = min(1.0 - level + complexity_at(points, level) for level in levels)
    return f"{best:.3f}" if math.isfinite(best) else "none (accuracy too low)"


def _comparison(points: Mapping[str, Sequence[Point]], methods: Sequence[str], classes: int) -> str:
    parts = []
    for share in _LEVELS:
        level = _level(classes, share)
        values = (complexity_at(points[method], level) for method in methods)
        parts.append(f"at {level:.3g}: " + ", ".join(f"{value:.3f}" for value in values))
    return "; ".join(parts)


def _yes(condition: bool) -> str:
    return "yes" if condition else "no"


def _up(value: float) -> str:
    """Four decimals, rounded up: a printed bound must not be smaller than the real one."""
    return f"{math.ceil(value * 1e4) / 1e4:.4f}"
