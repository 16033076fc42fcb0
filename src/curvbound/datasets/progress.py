"""A progress bar on a terminal, silence elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Bar", "progress"]


class Bar:
    """What a running job reports to; this one shows nothing.

    The methods and ``total`` are those that pooch expects of a progress bar.
    """

    total: float | None = None

    def update(self, amount: float) -> None:
        """``amount`` more bytes or items are done."""

    def reset(self) -> None:
        """Back to nothing done."""

    def close(self) -> None:
        """The job is over."""


@contextmanager
def progress(description: str, *, total: float | None = None) -> Iterator[Bar]:
    """A bar on standard error while a job runs; without ``total`` it only shows activity."""
    if not sys.stderr.isatty():
        yield Bar()
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(description, total=total)

        class TerminalBar(Bar):
            def update(self, amount: float) -> None:
                shown.update(task, advance=amount, total=self.total)

            def reset(self) -> None:
                shown.reset(task, total=self.total)

        bar = TerminalBar()
        bar.total = total
        yield bar
