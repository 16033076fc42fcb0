import json
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

from curvbound.cli.data import data
from curvbound.datasets import load
from curvbound.errors import CurvboundError


def run(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(data)
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "80"})


def test_readable() -> None:
    result = run("digits-2")
    assert result.exit_code == 0
    for part in ("scikit-learn", "1437 examples", "360 examples", "1 x 8 x 8", "unit"):
        assert part in result.stdout
    assert load("digits-2").train.hash in result.stdout


def test_json() -> None:
    result = run("digits-R", "--seed", "3", "--scaling", "symmetric", "--json")
    assert result.exit_code == 0
    expected = load("digits-R", seed=3, scaling="symmetric")
    assert json.loads(result.stdout) == expected.summary()


def test_own_constants() -> None:
    summary = json.loads(run("digits", "--scaling", "0.25,2", "--json").stdout)
    assert summary["scaling"]["shift"] == [0.25]
    assert summary["scaling"]["scale"] == [2.0]
    assert "(x - 0.25) / 2" in run("digits", "--scaling", "0.25,2").stdout


def test_file_without_a_test_part(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", X=np.eye(4), y=["[red]", "b", "b", "[red]"])
    result = run(str(tmp_path / "own.npz"))
    assert result.exit_code == 0
    assert "[red], b" in result.stdout
    assert "none" in result.stdout


@pytest.mark.parametrize("arguments", [("mnits",), ("digits", "--scaling", "1,2,3")])
def test_errors_are_left_to_the_caller(arguments: tuple[str, ...]) -> None:
    assert isinstance(run(*arguments).exception, CurvboundError)
