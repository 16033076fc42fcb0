"""Pictures of the papers' figures: colour-blind safe, labelled, written as SVG and PNG."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curvbound.certificates.pareto import (
    BASELINE,
    DIAGONAL,
    FULL,
    LOW_RANK,
    LOWER_BOUND,
    Point,
    pareto,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["accuracy_complexity", "panels", "save"]

# The palette of Okabe and Ito, told apart with every kind of colour vision; shapes differ as well.
_STYLES: dict[str, dict[str, Any]] = {
    BASELINE: {"color": "#E69F00", "marker": "o"},
    DIAGONAL: {"color": "#0072B2", "marker": "s"},
    FULL: {"color": "#009E73", "marker": "^"},
    LOW_RANK: {"color": "#CC79A7", "marker": "D"},
    LOWER_BOUND: {"color": "black", "marker": "", "linewidth": 2.0},
}
_HEIGHT = 1.5
"""Complexities beyond this are far on the vacuous side; the axis ends here at the latest."""


def panels(titles: Sequence[str], *, columns: int = 2) -> "tuple[Figure, list[Axes]]":
    """An empty figure with one titled pair of axes for each title."""
    from matplotlib.figure import Figure

    rows = -(-len(titles) // columns)
    figure = Figure(figsize=(4.6 * min(columns, len(titles)), 3.9 * rows), layout="constrained")
    grid = figure.subplots(rows, min(columns, len(titles)), squeeze=False)
    axes = [axis for row in grid for axis in row]
    for axis in axes[len(titles) :]:
        axis.remove()
    for axis, title in zip(axes, titles, strict=False):
        axis.set_title(title, fontsize=10)
    return figure, axes[: len(titles)]


def accuracy_complexity(axis: "Axes", points: Mapping[str, Sequence[Point]], classes: int) -> None:
    """Draw the picture of 000 Figs. 2-4 into ``axis``: the Pareto set of every method.

    Right of the dashed line the bound on the error is below 1; right of the dotted line it is
    below the error of guessing (000-E16).
    """
    fronts = {method: pareto(found) for method, found in points.items() if found}
    heights = [min(p.complexity, _HEIGHT) for front in fronts.values() for p in front]
    top = min(_HEIGHT, max(1.02, *heights))
    axis.plot([0, 1], [0, 1], color="0.35", linestyle="--", linewidth=1.2, label="error bound = 1")
    chance = 1 / classes
    axis.plot(
        [chance, 1],
        [0, 1 - chance],
        color="0.35",
        linestyle=":",
        linewidth=1.2,
        label="error bound = guessing",
    )
    axis.fill_between([0, 1], [0, 1], color="0.93", zorder=0)
    for method, front in fronts.items():
        axis.plot(
            [p.accuracy for p in front],
            [p.complexity for p in front],
            label=f"{method} ({front[0].kind})",
            linewidth=_STYLES[method].get("linewidth", 0.8),
            markersize=5,
            color=_STYLES[method]["color"],
            marker=_STYLES[method]["marker"],
        )
    axis.set_xlim(min(0.4, 0.9 * chance), 1.02)
    axis.set_ylim(0, 1.04 * top)
    axis.set_xlabel("training accuracy of the randomised network")
    axis.set_ylabel("complexity  √((KL + ln(2(N-1)/δ)) / 2N)")


def save(figure: "Figure", stem: Path) -> dict[str, Path]:
    """Write a figure as SVG and PNG, the same bytes for the same figure."""
    import matplotlib as mpl

    files = {kind: stem.with_suffix(f".{kind}") for kind in ("svg", "png")}
    with mpl.rc_context({"svg.hashsalt": "curvbound", "svg.fonttype": "none"}):
        figure.savefig(files["svg"], metadata={"Date": None})
        figure.savefig(files["png"], dpi=110, metadata={"Software": None})
    return files
