import io
import sys

import pytest

from curvbound.datasets.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("working", total=3) as bar:
        bar.update(3)
    assert capsys.readouterr() == ("", "")


def test_shows_the_description_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress("working", total=4) as bar:
        bar.update(4)
        bar.reset()
        bar.close()
    assert "working" in terminal.getvalue()
