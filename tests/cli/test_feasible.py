import json

import pytest
import typer
from typer.testing import CliRunner

from curvbound.cli.feasible import feasible
from curvbound.errors import CurvboundError


def run(*arguments):
    app = typer.Typer()
    app.command()(feasible)
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from curvbound import datasets, networks, training

    data = datasets.load("digits-2")
    out = tmp_path_factory.mktemp("weights")
    model = networks.build("F-10", data.shape, 2, seed=0)
    training.train(model, data.train, epochs=3, out=out)
    return out


def test_a_network_from_files_gives_curve_picture_and_numbers(folder, tmp_path):
    weights = ["--weights", folder / "final.safetensors", "--init", folder / "init.safetensors"]
    common = ["--data", "digits-2", "--model", "F-10", *weights]
    result = json.loads(run(*common, "--out", tmp_path / "f", "--json").stdout)
    assert result["kind"] == "oracle"
    assert "cannot lie below this curve" in result["meaning"]
    assert {p["kind"] for p in result["points"]} == {"oracle"}
    assert {path.suffix for path in (tmp_path / "f").iterdir()} == {".json", ".svg", ".png"}
    text = run(*common).stdout
    assert "reach" in text
    assert "curvbound certify" in text
    assert "never a certificate" in text


def test_without_weights_a_network_is_trained():
    done = run("--data", "digits-2", "--model", "F-5", "--json")
    assert json.loads(done.stdout)["files"] == {}


def test_bad_input_is_named(folder):
    final, init = folder / "final.safetensors", folder / "init.safetensors"
    with pytest.raises(CurvboundError, match="both --weights and --init"):
        run("--weights", final)
    with pytest.raises(CurvboundError, match="do not belong to the network F-11"):
        run("--data", "digits-2", "--model", "F-11", "--weights", final, "--init", init)
