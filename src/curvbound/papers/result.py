"""What reproducing a table or figure gives: numbers, a picture, and whether the pattern holds."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Pattern", "Reproduction", "rounded"]

_DIGITS = 6


@dataclass(frozen=True)
class Pattern:
    """One statement of a paper beside what was found here.

    Attributes:
        claim: What is looked at.
        paper: What the paper says about it.
        ours: What came out here.
        holds: Whether it agrees, decided by the program; None where the paper says nothing.
    """

    claim: str
    paper: str
    ours: str
    holds: bool | None

    @property
    def verdict(self) -> str:
        """``yes``, ``no``, or a dash where there is nothing to agree with."""
        return "-" if self.holds is None else "yes" if self.holds else "no"


@dataclass(frozen=True)
class Reproduction:
    """A reproduced item of a paper.

    Attributes:
        paper: Number of the paper.
        item: Table or figure.
        profile: ``quick`` or ``full``.
        seed: Seed of everything random.
        title: What is shown, in one line.
        patterns: The paper's statements beside ours.
        results: All numbers, ready for JSON.
        notes: What a reader must know to judge them.
        figure: The picture, if there is one.
    """

    paper: str
    item: str
    profile: str
    seed: int
    title: str
    patterns: Sequence[Pattern]
    results: Mapping[str, Any]
    notes: Sequence[str] = ()
    figure: "Figure | None" = field(default=None, repr=False)

    def to_json(self) -> dict[str, Any]:
        """Everything but the picture, as plain values."""
        return {
            "paper": self.paper,
            "item": self.item,
            "profile": self.profile,
            "seed": self.seed,
            "title": self.title,
            "patterns": [{**asdict(p), "verdict": p.verdict} for p in self.patterns],
            "notes": list(self.notes),
            "results": dict(self.results),
        }

    def save(self, folder: str | Path) -> dict[str, str]:
        """Write ``ITEM-PROFILE.json``, and the picture as SVG and PNG; returns where they are."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        stem = folder / f"{self.item}-{self.profile}"
        files = {"json": stem.with_suffix(".json")}
        files["json"].write_text(json.dumps(self.to_json(), indent=1) + "\n")
        if self.figure is not None:
            from curvbound.papers.pictures import save

            files |= save(self.figure, stem)
        return {name: str(path) for name, path in files.items()}


def rounded(value: Any) -> Any:
    """Plain values with six significant digits, to nearest; what is not finite becomes None.

    For estimates only: a certified bound must never be rounded down.

    >>> rounded({"a": (1 / 3, float("inf")), "b": 2})
    {'a': [0.333333, None], 'b': 2}
    """
    if isinstance(value, Mapping):
        return {str(key): rounded(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value
