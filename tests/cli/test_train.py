import json
import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from curvbound.cli import application
from curvbound.errors import CurvboundError

SMALL = ["train", "--model", "F-10", "--epochs", "2"]


def run(*arguments):
    done = CliRunner().invoke(application(), [str(argument) for argument in arguments])
    if isinstance(done.exception, CurvboundError):
        raise done.exception
    return done


def test_it_trains_and_says_where_the_files_are(tmp_path):
    done = run(*SMALL, "--out", tmp_path / "run", "--trajectory", 1)
    assert done.exit_code == 0
    assert "Trained F-10 on 1437 examples of digits for 2 epochs" in done.stdout
    assert "test error" in done.stdout
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "epoch-0001.safetensors",
        "epoch-0002.safetensors",
        "final.safetensors",
        "init.safetensors",
        "training.json",
    ]


def test_json_is_one_object_and_resuming_gives_the_same(tmp_path):
    first = json.loads(run(*SMALL, "--json", "--out", tmp_path / "run").stdout)
    assert first["epochs"] == 2
    assert 0 <= first["test_error"] <= 1
    assert set(first["files"]) == {"init", "final", "record"}
    again = json.loads(run(*SMALL, "--json", "--resume", "--out", tmp_path / "run").stdout)
    assert again == first


def test_a_finished_run_is_not_overwritten(tmp_path):
    run(*SMALL, "--out", tmp_path / "run")
    with pytest.raises(CurvboundError, match="already holds a finished"):
        run(*SMALL, "--out", tmp_path / "run")
    with pytest.raises(CurvboundError, match="seed was 0 and is now 1"):
        run(*SMALL, "--resume", "--seed", 1, "--out", tmp_path / "run")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--recipe", "fats"], "did you mean 'fast'"),
        (["--data", "mnits"], "mnist"),
        (["--model", "LeNet6"], "LeNet5"),
        (["--init", "xavier"], "no initialisation"),
        (["--epochs", "0"], "epochs"),
        (["--trajectory", "-1"], "at least 0"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(tmp_path, arguments, message):
    with pytest.raises(CurvboundError, match=message):
        run("train", "--out", tmp_path / "run", *arguments)
    assert not (tmp_path / "run").exists()


def test_recipes_can_be_listed():
    assert "001-momentum" in run("train", "--recipe", "list").stdout
    assert json.loads(run("train", "--recipe", "list", "--json").stdout)["001"]["epochs"] == 1000


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT to a process")
def test_an_interrupted_command_says_how_to_go_on(tmp_path):
    out = tmp_path / "run"
    arguments = ["train", "--model", "F-10", "--epochs", "100000", "--out", str(out)]
    command = [sys.executable, "-c", "from curvbound.cli import main; main()", *arguments]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        # A background job's children ignore Ctrl-C unless they are told not to.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        deadline = time.monotonic() + 240
        while not (out / "state.pt").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "--resume" in said
    assert "Traceback" not in said
    assert (out / "state.pt").exists()
