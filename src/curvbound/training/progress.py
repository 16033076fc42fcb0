"""A progress bar for training that costs the loop next to nothing."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["TrainingBar", "training_bar"]


class TrainingBar:
    """Shows epoch, loss, error and time left; without a display it does nothing."""

    def __init__(self, display: "Progress | None", epochs: int, steps: int, done: int) -> None:
        self._display = display
        self._epochs, self._steps = epochs, steps
        self._task: TaskID | None = None
        self._test = ""
        if display is not None:
            self._task = display.add_task(
                f"epoch {done // steps + 1}/{epochs}",
                total=epochs * steps,
                completed=done,
                status="",
            )

    @property
    def shown(self) -> bool:
        """Whether anybody sees it; if not, its numbers need not be computed."""
        return self._display is not None

    def update(self, done: int, loss: float, error: float) -> None:
        """Show the state after so many steps."""
        if self._display is not None and self._task is not None:
            epoch = min(done // self._steps + 1, self._epochs)
            self._display.update(
                self._task,
                completed=done,
                description=f"epoch {epoch}/{self._epochs}",
                status=f"loss {loss:.4f}  error {error:.2%}{self._test}",
            )

    def test(self, error: float) -> None:
        """Remember the test error, to be shown beside the running numbers."""
        self._test = f"  test {error:.2%}"


@contextmanager
def training_bar(
    wanted: bool | None, *, epochs: int, steps: int, done: int
) -> Iterator[TrainingBar]:
    """A bar on standard error while the block runs.

    Args:
        wanted: Show it or not; None: only if standard error is a terminal.
        epochs: Number of epochs in all.
        steps: Number of steps in an epoch.
        done: Steps done before.
    """
    if wanted is False or (wanted is None and not sys.stderr.isatty()):
        yield TrainingBar(None, epochs, steps, done)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[status]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=4) as display:
        yield TrainingBar(display, epochs, steps, done)
