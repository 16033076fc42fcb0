"""What every command prints with: results on standard output, everything else on standard error."""

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["emit", "note", "progress_wanted"]


def emit(result: Mapping[str, Any], *, as_json: bool, text: "RenderableType") -> None:
    """Print one result: the JSON object alone when asked for, the readable text otherwise."""
    if as_json:
        print(json.dumps(result, indent=2))
        return
    from rich.console import Console

    Console(highlight=False, soft_wrap=True).print(text)


def note(sentence: str, *, quiet: bool = False) -> None:
    """Say something that is not the result (standard error, so that pipes stay clean)."""
    if not quiet:
        print(sentence, file=sys.stderr)


def progress_wanted(quiet: bool, as_json: bool) -> bool:
    """Whether to draw progress bars: only for a person looking at a terminal."""
    return sys.stderr.isatty() and not quiet and not as_json
