"""The command ``curvbound data``: fetch, check and describe a data set."""

from __future__ import annotations

import json
from typing import Annotated

import typer

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
    """Fetch a data set if need be, check it, and say what it is."""
    from curvbound.datasets import load

    constants = _constants(scaling)
    summary = load(name, scaling=constants or scaling, seed=seed).summary()
    if as_json:
        typer.echo(json.dumps(summary))
    else:
        _print(summary)


def _constants(scaling: str | None) -> tuple[float, float] | None:
    """The two numbers of ``SHIFT,SCALE``, if that is what was given."""
    try:
        shift, scale = (float(part) for part in (scaling or "").split(","))
    except ValueError:
        return None
    return shift, scale


def _print(summary: dict[str, object]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for label, value in _lines(summary):
        table.add_row(label, value)
    Console(highlight=False, markup=False).print(table)


def _lines(summary: dict[str, object]) -> list[tuple[str, str]]:
    """What is printed, as pairs of label and text."""
    scaling = summary["scaling"]
    assert isinstance(scaling, dict)
    shape, names = summary["shape"], summary["class_names"]
    assert isinstance(shape, list)
    assert isinstance(names, list)
    lines = [
        ("data set", str(summary["name"])),
        ("source", str(summary["source"])),
        ("where", str(summary["location"])),
        ("input shape", " x ".join(str(size) for size in shape)),
        ("classes", f"{summary['classes']}: {', '.join(names)}"),
        ("scaling", f"{scaling['name']}: {_formula(scaling['shift'], scaling['scale'])}"),
    ]
    for part in ("train", "test"):
        found = summary[part]
        if not isinstance(found, dict):
            lines.append((part, "none"))
            continue
        counts = ", ".join(str(count) for count in found["class_counts"])
        lines.append((part, f"{found['examples']} examples, per class {counts}"))
        lines.append((f"{part} hash", f"sha256 {found['hash']}"))
    return lines


def _formula(shift: list[float], scale: list[float]) -> str:
    if len(shift) > 1 or len(scale) > 1:
        return "(x - shift) / scale with constants of each feature or channel"
    return f"(x - {shift[0]:g}) / {scale[0]:g}" if (shift, scale) != ([0.0], [1.0]) else "x"
