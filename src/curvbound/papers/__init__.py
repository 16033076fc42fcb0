"""The papers' tables and figures, each as one function that runs the experiment again."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from curvbound.errors import CurvboundError
from curvbound.papers.result import Pattern, Reproduction

__all__ = ["Item", "Pattern", "Reproduction", "items", "reproduce"]

_HOMES = {
    ("000", "fig2"): ("p000", "figure_2"),
    ("000", "fig3"): ("p000", "figure_3"),
    ("000", "fig4"): ("p000", "figure_4"),
}
"""Where the function of each item is: module in this folder, and its name."""

PROFILES = ("quick", "full")


class Item(Protocol):
    """The function behind a table or figure."""

    def __call__(
        self, profile: str, *, out: Path | None, seed: int, say: Callable[[str], None]
    ) -> Reproduction:
        """Run the experiment.

        Args:
            profile: ``quick`` (minutes on one core) or ``full`` (the paper's settings).
            out: Folder in which trained networks are kept and found again; None: nowhere.
            seed: Seed of everything random.
            say: Called with a sentence when something longer begins.
        """


def items() -> dict[tuple[str, str], Item]:
    """The function for every (paper, item) that can be reproduced.

    >>> [item for paper, item in items() if paper == "000"]
    ['fig2', 'fig3', 'fig4']
    """
    return {
        key: getattr(importlib.import_module(f"curvbound.papers.{module}"), name)
        for key, (module, name) in _HOMES.items()
    }


def reproduce(
    paper: str,
    item: str,
    profile: str = "quick",
    *,
    out: Path | None = None,
    seed: int = 0,
    say: Callable[[str], None] = lambda sentence: None,
) -> Reproduction:
    """Run one table or figure of a paper again (see :class:`Item` for the arguments).

    Raises:
        CurvboundError: If there is no such paper, item or profile.
    """
    papers = sorted({known for known, _ in _HOMES})
    if paper not in papers:
        raise CurvboundError(f"There is no paper '{paper}': choose one of {', '.join(papers)}.")
    if (paper, item) not in _HOMES:
        known = ", ".join(name for number, name in _HOMES if number == paper)
        raise CurvboundError(f"Paper {paper} has no item '{item}' here: choose one of {known}.")
    if profile not in PROFILES:
        raise CurvboundError(f"There is no profile '{profile}': choose quick or full.")
    return items()[paper, item](profile, out=out, seed=seed, say=say)
