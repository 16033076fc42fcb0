"""The ``curvbound`` command: one file per sub-command, errors turned into one sentence."""

import sys
from typing import TYPE_CHECKING

from curvbound.errors import CurvboundError

if TYPE_CHECKING:
    import typer

__all__ = ["application", "main"]


def application() -> "typer.Typer":
    """Assemble the command line from the files of this folder."""
    import typer

    from curvbound.cli import certify, data, feasible, reproduce, train, verify

    app = typer.Typer(
        name="curvbound",
        help="Read the loss curvature of a trained network and say how well it will generalise.",
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
    )
    app.command("certify")(certify.certify)
    app.command("verify")(verify.verify)
    app.command("feasible")(feasible.feasible)
    app.command("reproduce")(reproduce.reproduce)
    app.command("train")(train.train)
    app.command("data")(data.data)
    app.callback(invoke_without_command=False)(_root)
    return app


def _root() -> None:
    """Read the loss curvature of a trained network and say how well it will generalise."""


def main() -> None:
    """Run the command line; bad input ends with status 2 and one sentence on standard error."""
    try:
        application()()
    except CurvboundError as error:
        print(f"curvbound: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output went away, e.g. `| head`
        sys.stderr.close()
        sys.exit(1)
