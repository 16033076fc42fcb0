"""`curvbound verify` as a person meets it: table, JSON, exit status."""

import json

import pytest
import typer
from typer.testing import CliRunner

import curvbound as cb
from curvbound import CurvboundError, datasets, networks
from curvbound.cli.verify import verify

MODULE = """
from torch import nn

def build(input_shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(input_shape[1] * input_shape[2], classes))
"""


@pytest.fixture(scope="module")
def app():
    application = typer.Typer()
    application.command()(verify)
    return application


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    data = datasets.load("digits-2").train
    model = networks.build("F-6", data.shape, 2, seed=0)
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    cert = cb.certify(model, data, init=start, budget="quick")
    return cert.save(tmp_path_factory.mktemp("cert") / "cert.json")


def run(app, *arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_good_certificate_ends_with_0(app, saved):
    found = run(app, saved)
    assert found.exit_code == 0
    assert "passed" in found.stdout
    assert "Nobody can verify from outside" in found.stdout
    assert "could not be made" in found.stdout


def test_with_data_by_name_and_as_json(app, saved):
    found = run(app, saved, "--data", "digits-2", "--json")
    assert found.exit_code == 0
    result = json.loads(found.stdout)
    assert result["ok"] is True
    statuses = {check["name"]: check["status"] for check in result["checks"]}
    assert statuses["Monte Carlo with fresh draws"] == "passed"
    assert statuses["data"] == "passed"


def test_a_wrong_certificate_ends_with_1(app, saved, tmp_path):
    content = json.loads(saved.read_text())
    content["claims"][0]["bound"] /= 2
    wrong = tmp_path / "cert.json"
    wrong.write_text(json.dumps(content))
    wrong.with_suffix(".safetensors").write_bytes(saved.with_suffix(".safetensors").read_bytes())
    found = run(app, wrong)
    assert found.exit_code == 1
    assert "FAILS: bound of the randomised network" in found.stdout
    assert run(app, saved, "--data", "digits").exit_code == 1


def test_a_network_of_the_user_is_named_by_the_user(app, tmp_path, monkeypatch):
    (tmp_path / "networks_of_mine.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    from curvbound.cli.models import resolve_model

    data = datasets.load("digits-2").train
    model = resolve_model("networks_of_mine:build", data.shape, 2, seed=1)
    start = {name: 0.9 * tensor for name, tensor in model.state_dict().items()}
    path = cb.certify(model, data, init=start, budget="quick").save(tmp_path / "mine.json")
    options = ["--data", "digits-2", "--json"]
    alone = json.loads(run(app, path, *options).stdout)
    assert "counts" in {check["name"] for check in alone["checks"]}
    found = json.loads(run(app, path, *options, "--model", "networks_of_mine:build").stdout)
    assert found["ok"] is True
    assert "Monte Carlo repeated" in {check["name"] for check in found["checks"]}


def test_bad_usage_and_bad_files_are_refused(app, saved, tmp_path):
    assert run(app).exit_code == 2
    assert run(app, saved, "--nonsense").exit_code == 2
    for arguments, message in (
        ([saved, "--model", "F-6"], "give --data as well"),
        ([tmp_path / "none.json"], "cannot be read"),
        ([saved, "--data", "no-such-data"], "no data set or file"),
    ):
        found = run(app, *arguments)
        assert isinstance(found.exception, CurvboundError)  # status 2 by the main program
        assert message in str(found.exception)
