"""Pictures of the curvature benchmark."""

from pathlib import Path
from typing import Any

from curvature_cases import NETWORKS, ROWS

MARKS = {
    "curvlinops": ("o", "#b8860b"),
    "hessian-eigenthings": ("^", "#7a5195"),
    "BackPACK": ("s", "#2f8f6b"),
    "nngeometry": ("v", "#888888"),
    "laplace (asdl)": ("D", "#c2553a"),
    "laplace (curvlinops)": ("d", "#d99a8b"),
}
OURS = "curvbound"


def draw_cost(table: dict[str, Any], path: Path) -> None:
    """Every row of every network as a line of points on a logarithmic axis."""
    from matplotlib import pyplot as plt

    lines = [(name, key) for name, rows in table.items() for key in rows]
    figure, axes = plt.subplots(figsize=(9, 0.34 * len(lines) + 1.4))
    for place, (name, key) in enumerate(reversed(lines)):
        entries = table[name][key]["entries"]
        ratios = {library: e["ratio"] for library, e in entries.items() if "ratio" in e}
        axes.plot([min(ratios.values()), max(ratios.values())], [place] * 2, c="#dddddd", zorder=1)
        for library, (mark, colour) in MARKS.items():
            if library in ratios:
                axes.scatter(ratios[library], place, marker=mark, c=colour, s=26, zorder=2)
        axes.scatter(ratios[OURS], place, marker="*", c="#1f4e9e", s=110, zorder=3)
        aim = ROWS[key].targets.get(name)
        if aim is not None:
            axes.plot([aim] * 2, [place - 0.35, place + 0.35], c="black", lw=1)
    axes.set_yticks(
        range(len(lines)),
        [f"{NETWORKS[name].title.split()[0]}: {ROWS[key].title}" for name, key in reversed(lines)],
        fontsize=8,
    )
    axes.set_xscale("log")
    axes.set_xlabel("time of one plain gradient = 1")
    axes.scatter([], [], marker="*", c="#1f4e9e", s=110, label=OURS)
    for library, (mark, colour) in MARKS.items():
        axes.scatter([], [], marker=mark, c=colour, s=26, label=library)
    axes.plot([], [], c="black", lw=1, label="aim of curvbound")
    axes.legend(fontsize=7, loc="lower center", bbox_to_anchor=(0.35, 1), ncols=4, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    _save(figure, path)


def draw_growth(growth: dict[str, Any], path: Path) -> None:
    """Time and memory against examples; time against products."""
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
    memory = left.twinx()
    for title, ratios in growth["examples"].items():
        [line] = left.plot(growth["sizes"], ratios, marker="o", ms=4, label=title)
        memory.plot(growth["sizes"], growth["memory_mib"][title], ":", c=line.get_color())
    left.set(xlabel="examples", ylabel="time in gradients of 1000 examples", ylim=0)
    memory.set_ylabel("MiB added at the peak (dotted)")
    memory.set_ylim(0, 1.3 * max(max(values) for values in growth["memory_mib"].values()))
    left.legend(fontsize=7, frameon=False)
    right.plot(growth["counts"], growth["products"], marker="o", ms=4)
    right.set(xlabel="Hessian-vector products at the same weights", ylim=0)
    right.set_ylabel("time in gradients of 1000 examples")
    for axes in (left, right):
        axes.spines["top"].set_visible(False)
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    from matplotlib import pyplot as plt

    # Without a date and with fixed names inside, the same numbers give the same file.
    plt.rcParams["svg.hashsalt"] = "curvbound"
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
