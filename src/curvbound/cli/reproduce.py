"""``curvbound reproduce``: run a table or figure of a paper again."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from curvbound.cli import console

if TYPE_CHECKING:
    from rich.console import RenderableType

    from curvbound.papers import Reproduction

__all__ = ["reproduce"]


def reproduce(
    paper: Annotated[str, typer.Argument(help="Number of the paper, such as 000.")],
    item: Annotated[str, typer.Argument(help="Table or figure, such as fig2.")],
    profile: Annotated[
        str, typer.Option(help="quick (minutes on one core) or full (the paper's settings).")
    ] = "quick",
    out: Annotated[
        Path, typer.Option(help="Folder for results, pictures and trained networks.")
    ] = Path("curvbound-reproduce"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not say what is being done.")] = False,
) -> None:
    """Run a table or figure of a paper again and compare it with what the paper says.

    Example: `curvbound reproduce 000 fig2`
    """
    from curvbound import papers

    found = papers.reproduce(
        paper,
        item,
        profile,
        out=out,
        seed=seed,
        say=lambda sentence: console.note(sentence, quiet=quiet or as_json),
    )
    files = found.save(out / paper)
    console.emit({**found.to_json(), "files": files}, as_json=as_json, text=_text(found, files))


def _text(found: "Reproduction", files: dict[str, str]) -> "RenderableType":
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table("pattern", "paper", "ours", "holds", title=f"{found.paper} {found.item}")
    for pattern in found.patterns:
        table.add_row(pattern.claim, pattern.paper, pattern.ours, pattern.verdict)
    notes = [Text(note) for note in found.notes]
    return Group(Text(found.title), table, *notes, Text("Written: " + ", ".join(files.values())))
