"""The command ``curvbound data``: fetch, check and describe a data set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from curvbound.cli import console

if TYPE_CHECKING:
    from rich.table import Table

    from curvbound.datasets import Dataset, Scaling

__all__ = ["data"]


def data(
    name: Annotated[
        str,
        typer.Argument(
            help="digits, mnist, fashion-mnist or cifar10; a variant such as mnist-2 (classes "
            "merged) or mnist-random (random labels); or a file or folder."
        ),
    ],
    scaling: Annotated[
        str | None,
        typer.Option(
            help="unit [0,1], symmetric (x-.5)/.5, mnist (x-.1307)/.3081, none, or SHIFT,SCALE."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of random labels.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Fetch a data set if need be, check it, and say what it is.

    Example: `curvbound data mnist-2`
    """
    from curvbound.datasets import load

    found = load(name, scaling=_constants(scaling) or scaling, seed=seed)
    console.emit(found.summary(), as_json=as_json, text=_table(found))


def _constants(scaling: str | None) -> tuple[float, float] | None:
    """The two numbers of ``SHIFT,SCALE``, if that is what was given."""
    try:
        shift, scale = (float(part) for part in (scaling or "").split(","))
    except ValueError:
        return None
    return shift, scale


def _table(found: Dataset) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None, pad_edge=False)
    for label, value in _lines(found):
        # Text, since names of classes and files may look like markup.
        table.add_row(Text(label, style="bold"), Text(value, overflow="fold"))
    return table


def _lines(found: Dataset) -> list[tuple[str, str]]:
    """What is printed, as pairs of label and text."""
    lines = [
        ("data set", found.name),
        ("source", found.source),
        ("where", found.location),
        ("input shape", " x ".join(str(size) for size in found.shape)),
        ("classes", f"{found.classes}: {', '.join(found.class_names)}"),
        ("scaling", f"{found.scaling.name}: {_formula(found.scaling)}"),
    ]
    for label, part in (("train", found.train), ("test", found.test)):
        if part is None:
            lines.append((label, "none"))
            continue
        counts = ", ".join(str(count) for count in part.class_counts)
        lines.append((label, f"{len(part)} examples, per class {counts}"))
        lines.append((f"{label} sha256", part.hash))
    return lines


def _formula(scaling: Scaling) -> str:
    if scaling.identity:
        return "pixels from 0 to 1" if scaling.name == "unit" else "values as they are"
    # Scalings of a command are constants for all features.
    return f"(x - {scaling.shift[0]:g}) / {scaling.scale[0]:g}"
