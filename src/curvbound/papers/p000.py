"""Paper 000, Figures 2 to 4: accuracy against complexity on merged MNIST and CIFAR-10."""

from collections.abc import Callable, Sequence
from pathlib import Path

from curvbound.papers.p000_panel import Panel, panel
from curvbound.papers.p000_patterns import comparison_patterns, feasibility_patterns
from curvbound.papers.p000_settings import MORE_CLASSES, PROFILES, TWO_CLASSES
from curvbound.papers.pictures import accuracy_complexity, panels
from curvbound.papers.result import Pattern, Reproduction

__all__ = ["figure_2", "figure_3", "figure_4"]


def figure_2(
    profile: str, *, out: Path | None, seed: int, say: Callable[[str], None]
) -> Reproduction:
    """Fig. 2: where the lower bound of diagonal Gaussians crosses into the non-vacuous region."""
    found = [panel(t, PROFILES[profile], out, seed, say, compare=False) for t in TWO_CLASSES]
    title = "Lower bound for diagonal Gaussians, two classes"
    return _reproduction("fig2", profile, seed, title, found, feasibility_patterns(found))


def figure_3(
    profile: str, *, out: Path | None, seed: int, say: Callable[[str], None]
) -> Reproduction:
    """Fig. 3: baseline, diagonal and full layer-wise Hessian, and the lower bound; two classes."""
    found = [panel(t, PROFILES[profile], out, seed, say) for t in TWO_CLASSES]
    title = "Accuracy against complexity, two classes"
    return _reproduction("fig3", profile, seed, title, found, comparison_patterns(found))


def figure_4(
    profile: str, *, out: Path | None, seed: int, say: Callable[[str], None]
) -> Reproduction:
    """Fig. 4: the same with five and ten classes."""
    found = [panel(t, PROFILES[profile], out, seed, say) for t in MORE_CLASSES]
    title = "Accuracy against complexity, five and ten classes"
    return _reproduction("fig4", profile, seed, title, found, comparison_patterns(found))


def _reproduction(
    item: str,
    profile: str,
    seed: int,
    title: str,
    found: Sequence[Panel],
    patterns: Sequence[Pattern],
) -> Reproduction:
    figure, axes = panels([f"{p.task.data}, {p.task.network}, N = {p.facts['n']}" for p in found])
    for axis, one in zip(axes, found, strict=True):
        accuracy_complexity(axis, one.points, one.classes)
    axes[0].legend(fontsize=7, loc="upper left")
    notes = [
        "Points are estimates from 5 weight draws, hence pictures and not certificates (000-E8).",
        "Lower bound: under the quadratic approximation, with diagonal Gaussians and both means "
        "fixed, accuracy and complexity cannot lie below this curve. It is an oracle.",
        "Certificates: best point of a method on the grid, fresh weight draws for every example, "
        "kl form of the bound, choice of lambda charged.",
        "The paper gives neither delta, nor grids, optimiser, input scaling or merging of classes.",
    ]
    if PROFILES[profile].shortened:
        notes.append("Quick profile: fewer epochs, examples and grid points than the paper.")
    results = {"panels": [one.to_json() for one in found]}
    return Reproduction("000", item, profile, seed, title, patterns, results, notes, figure)
