"""``curvbound certify``: the whole job on the embedded digits."""

from pathlib import Path
from typing import Annotated

import typer

from curvbound.cli import console


def certify(
    out: Annotated[Path, typer.Option(help="Folder for weights and results.")] = Path(
        "curvbound-out"
    ),
    seed: Annotated[int, typer.Option(help="Seed of the initialisation and of training.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Train a network on the embedded digits and keep what a certificate starts from.

    Example: `curvbound certify --seed 1`
    """
    from curvbound import datasets, networks, training

    data = datasets.load("digits")
    shape = tuple(data.train.inputs.shape[1:])
    model = networks.build("F-100", shape, data.train.classes, seed=seed)
    result = training.train(model, data.train, test=data.test, seed=seed, out=out)
    console.emit(
        {"train_error": result.train_error, "test_error": result.test_error, "files": str(out)},
        as_json=as_json,
        text=f"Trained F-100 on {len(data.train)} digits: training error {result.train_error:.4f}, "
        f"test error {result.test_error:.4f}. Initial and final weights are in {out}; "
        "certificates of what they prove come next.",
    )
