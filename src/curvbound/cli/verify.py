"""``curvbound verify``: check a certificate again, without trusting who issued it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from curvbound.cli import console

if TYPE_CHECKING:
    from rich.console import Group

    from curvbound.certificates.verification import Verification

_COLOURS = {"passed": "green", "failed": "bold red", "noted": "yellow", "not checked": "dim"}


def verify(
    certificate: Annotated[
        Path,
        typer.Argument(metavar="CERT.json", help="The certificate; its tensors lie beside it."),
    ],
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|MODULE:FACTORY", help="The network, if it is none of curvbound's own."
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE", help="The data it was computed on, to count again."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check a certificate: hashes, KL, charges, every bound; with the data also the counts.

    Status 0 if no check fails, 1 if one does. Code named in the file is never imported.

    Example: `curvbound verify certificate.json --data digits`
    """
    from curvbound import datasets
    from curvbound.certificates.verify import verify as check
    from curvbound.cli.models import resolve_model
    from curvbound.errors import CurvboundError

    if model is not None and data is None:
        raise CurvboundError("--model is for running the network on the data: give --data as well.")
    dataset = None if data is None else datasets.load(data)
    network = None
    if model is not None and dataset is not None:
        network = resolve_model(model, dataset.shape, dataset.classes)
    found = check(certificate, model=network, data=dataset)
    console.emit(found.to_json(), as_json=as_json, text=_shown(found))
    if not found.ok:
        raise typer.Exit(1)


def _shown(found: "Verification") -> "Group":
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table("", "check", "found", box=None, pad_edge=False)
    for check in found.checks:
        status = Text(check.status, style=_COLOURS[check.status])
        table.add_row(status, Text(check.name), Text(check.sentence))
    beyond = "\n".join(f"  {item}" for item in found.beyond)
    return Group(
        Text(found.claim),
        table,
        Text(f"Nobody can verify from outside:\n{beyond}"),
        Text(found.verdict, style="bold green" if found.ok else "bold red"),
    )
