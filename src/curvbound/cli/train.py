"""`curvbound train`: train a network by a recipe and keep its weights."""

from pathlib import Path
from typing import Annotated, Any

import typer

from curvbound.cli import console


def train(
    data: Annotated[
        str, typer.Option(help="Name of a data set (see `curvbound data`), or a file.")
    ] = "digits",
    model: Annotated[
        str, typer.Option(metavar="NAME|MODULE:FACTORY", help="Network to train.")
    ] = "F-100",
    recipe: Annotated[
        str, typer.Option(help="How to train; `--recipe list` shows all recipes.")
    ] = "fast",
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the data, instead of the recipe's.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of initial weights, order and dropout.")] = 0,
    init: Annotated[
        str | None, typer.Option(help="Initialisation, such as torch, he, gaussian-0.04.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for weights and record.")] = Path(
        "curvbound-run"
    ),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    trajectory: Annotated[
        int, typer.Option(help="Also keep the weights every so many epochs.")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Train a network; keep its initial and final weights and how they came about.

    Example: `curvbound train --data mnist --model F-600 --out runs/f600`
    """
    from curvbound import datasets, training
    from curvbound.cli.models import resolve_model

    if recipe == "list":
        _list_recipes(as_json)
        return
    chosen = training.get_recipe(recipe)
    dataset = datasets.load(data)
    network = resolve_model(model, dataset.shape, dataset.classes, init=init, seed=seed)
    try:
        result = training.train(
            network,
            dataset,
            chosen,
            epochs=epochs,
            seed=seed,
            out=out,
            resume=resume,
            trajectory=trajectory,
            progress=console.progress_wanted(quiet, as_json),
        )
    except KeyboardInterrupt:
        console.note(f"Interrupted: the same command with --resume goes on with the run in {out}.")
        raise typer.Exit(130) from None
    console.emit(
        _summary(result, data=data, model=model),
        as_json=as_json,
        text=_sentence(result, f"{model} on {len(dataset.train)} examples of {data}", out),
    )


def _summary(result: Any, *, data: str, model: str) -> dict[str, Any]:
    return {
        "data": data,
        "model": model,
        "recipe": result.recipe.name,
        "seed": result.seed,
        "epochs": result.epochs,
        "train_loss": result.train_loss,
        "train_error": result.train_error,
        "test_loss": result.test_loss,
        "test_error": result.test_error,
        "seconds": result.seconds,
        "files": {name: str(path) for name, path in result.files.items()},
    }


def _sentence(result: Any, what: str, out: Path) -> str:
    test = "" if result.test_error is None else f", test error {result.test_error:.4f}"
    reached = ""
    limit = result.recipe.stop_error
    if limit is not None and result.train_error > limit:
        reached = f"\nThe recipe's training error of {limit:g} was not reached: give more --epochs."
    return (
        f"Trained {what} for {result.epochs} epochs in {result.seconds:.1f} s: "
        f"training error {result.train_error:.4f}{test}.{reached}\n"
        f"Initial and final weights and the record of training are in {out}."
    )


def _list_recipes(as_json: bool) -> None:
    from rich.table import Table

    from curvbound import training

    table = Table("recipe", "epochs", "what for")
    for name, recipe in training.recipes().items():
        table.add_row(name, str(recipe.epochs), recipe.description)
    console.emit(
        {name: recipe.settings() for name, recipe in training.recipes().items()},
        as_json=as_json,
        text=table,
    )
