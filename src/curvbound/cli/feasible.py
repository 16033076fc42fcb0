"""``curvbound feasible``: what diagonal Gaussians could prove about a network at best."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from curvbound.cli import console
from curvbound.errors import CurvboundError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from curvbound.certificates.pareto import Point
    from curvbound.certificates.tradeoff import Subject
    from curvbound.datasets import Dataset

__all__ = ["feasible"]

MEANING = (
    "Under the quadratic approximation of the loss, with diagonal Gaussians and both means fixed, "
    "accuracy and complexity cannot lie below this curve. It is an oracle, never a certificate."
)
ELSEWHERE = (
    "Where the approximation fails, and with other means, other covariances or the kl form of the "
    "bound, more may be provable: curvbound certify tries."
)
_BETAS = tuple(10 ** (-12 + 0.5 * k) for k in range(23))


def feasible(
    data: Annotated[
        str, typer.Option(help="Name of a data set (see `curvbound data`), or a file.")
    ] = "digits",
    model: Annotated[str, typer.Option(metavar="NAME|MODULE:FACTORY", help="Network.")] = "F-100",
    weights: Annotated[
        Path | None, typer.Option(help="Trained weights; without them a network is trained.")
    ] = None,
    init: Annotated[
        Path | None, typer.Option(help="The weights it started from; needed with --weights.")
    ] = None,
    delta: Annotated[float, typer.Option(help="Failure probability of the bound.")] = 0.05,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the picture and the numbers.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Draw the lower bound of 000: can diagonal Gaussians prove anything about this network?

    Example: `curvbound feasible --data digits --model F-100 --out feasible`
    """
    from curvbound import datasets
    from curvbound.certificates.tradeoff import lower_bound_curve

    if (weights is None) != (init is None):
        raise CurvboundError("Give both --weights and --init, or neither to train a network.")
    dataset = datasets.load(data)
    progress = console.progress_wanted(quiet, as_json)
    subject = _subject(dataset, model, weights, init, delta=delta, seed=seed, progress=progress)
    curve = lower_bound_curve(subject, _BETAS)
    result = _summary(subject, curve, data=data, model=model)
    result["files"] = {} if out is None else _write(result, curve, subject, out)
    console.emit(result, as_json=as_json, text=_text(result))


def _subject(
    dataset: "Dataset",
    model: str,
    weights: Path | None,
    init: Path | None,
    *,
    delta: float,
    seed: int,
    progress: bool,
) -> "Subject":
    """The network with its start: from files, or trained here."""
    from curvbound.certificates.tradeoff import subject_of
    from curvbound.cli.models import load_weights, resolve_model
    from curvbound.training import train

    network = resolve_model(model, dataset.shape, dataset.classes, seed=seed)
    if weights is None or init is None:
        start = train(network, dataset.train, seed=seed, progress=progress).init
    else:
        start, final = load_weights(init), load_weights(weights)
        try:
            network.load_state_dict(final)
        except RuntimeError as error:
            raise CurvboundError(
                f"The weights in {weights} do not belong to the network {model}: give the network "
                "they were trained with as --model."
            ) from error
    return subject_of(network.eval(), start, dataset.train, delta=delta, seed=seed)


def _summary(subject: "Subject", curve: "list[Point]", *, data: str, model: str) -> dict[str, Any]:
    from curvbound.papers.p000_patterns import crosses
    from curvbound.papers.result import rounded

    classes = subject.data.classes
    result: dict[str, Any] = rounded(
        {
            "data": data,
            "model": model,
            "kind": "oracle",
            "meaning": MEANING,
            "n": len(subject.data),
            "delta": subject.delta,
            "squared_distance": subject.squared_distance,
            "below_one": crosses(curve, classes),
            "below_guessing": crosses(curve, classes, limit=1 - 1 / classes),
            "points": [{**asdict(p), "error_bound": p.error_bound} for p in curve],
        }
    )
    return result


def _write(
    result: dict[str, Any], curve: "list[Point]", subject: "Subject", out: Path
) -> dict[str, str]:
    import json

    from curvbound.papers.pictures import accuracy_complexity, panels, save

    figure, (axis,) = panels([f"{result['data']}, {result['model']}, N = {result['n']}"])
    accuracy_complexity(axis, {curve[0].method: curve}, subject.data.classes)
    axis.legend(fontsize=7, loc="upper left")
    out.mkdir(parents=True, exist_ok=True)
    files = {"json": out / "feasible.json", **save(figure, out / "feasible")}
    files["json"].write_text(json.dumps(result, indent=1) + "\n")
    return {name: str(path) for name, path in files.items()}


def _text(result: dict[str, Any]) -> "RenderableType":
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table("beta", "accuracy", "complexity", "KL", "error bound at best")
    for point in result["points"]:
        table.add_row(
            f"{point['beta']:.1e}",
            f"{point['accuracy']:.3f}",
            f"{point['complexity']:.3f}",
            f"{point['kl']:.0f}",
            f"{point['error_bound']:.3f}",
        )
    lines = [
        _verdict("an error bound below 1", result["below_one"]),
        _verdict("an error bound below guessing", result["below_guessing"]),
        MEANING,
        ELSEWHERE,
    ]
    if result["files"]:
        lines.append("Written: " + ", ".join(result["files"].values()))
    return Group(table, *(Text(line) for line in lines))


def _verdict(what: str, reached: bool) -> str:
    """Speaks of the curve alone; a yes proves nothing, and a no holds under its assumptions."""
    return f"The curve {'reaches' if reached else 'does not reach'} {what}."
