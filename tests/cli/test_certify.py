"""``curvbound certify`` as a person uses it: files, numbers, refusals."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from curvbound import networks
from curvbound.cli import main

CONTRACT = {
    "bound", "kind", "about", "confidence", "n", "kl", "empirical_risk", "mc_draws", "delta",
    "union", "holdout", "seconds", "files",
}  # fmt: skip


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["curvbound", "certify", *arguments])
    try:
        main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


@pytest.fixture
def small_data(tmp_path: Path) -> Path:
    import numpy as np

    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    x = rng.normal(size=(400, 5)).astype(np.float32) + 2.0 * y[:, None]
    np.savez(tmp_path / "two.npz", X=x, y=y)
    return tmp_path / "two.npz"


def test_split_and_data_free_certificates_are_written_verified_and_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], small_data: Path
) -> None:
    out = small_data.parent / "out"
    arguments = ("--data", str(small_data), "--model", "F-8", "--out", str(out), "--json")
    assert run(monkeypatch, *arguments, "--budget", "quick") == 0
    result = json.loads(capsys.readouterr().out)
    assert set(result) >= CONTRACT
    assert result["kind"] == "certificate"
    assert result["n"] == 200
    assert sum(result["delta"].values()) == pytest.approx(0.05)
    assert result["empirical_risk"] < result["bound"] < 0.5
    for path in result["files"].values():
        assert Path(path).exists()
    assert json.loads((out / "data-free.json").read_text())["data"]["examples"] == 400

    assert run(monkeypatch, *arguments, "--budget", "quick") == 2
    assert "already holds a certificate" in capsys.readouterr().err
    assert run(monkeypatch, *arguments, "--budget", "quick", "--resume") == 0
    assert json.loads(capsys.readouterr().out)["bound"] == result["bound"]


def test_given_weights_with_their_initialisation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], small_data: Path
) -> None:
    model = networks.build("F-4", (5,), 2, seed=3)
    folder = small_data.parent
    save_file(model.state_dict(), folder / "init.safetensors")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01)
    save_file(model.state_dict(), folder / "final.safetensors")
    arguments = (
        *("--data", str(small_data), "--model", "F-4", "--out", str(folder / "out")),
        *("--weights", str(folder / "final.safetensors"), "--json", "--budget", "quick"),
    )
    assert run(monkeypatch, *arguments) == 2
    assert "init=" in capsys.readouterr().err
    assert not (folder / "out").exists()
    assert run(monkeypatch, *arguments, "--init", str(folder / "init.safetensors")) == 0
    assert json.loads(capsys.readouterr().out)["about"] == "the randomised network"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--data", "mnits"), "mnits"),
        (("--model", "F-"), "F-"),
        (("--delta", "1.5"), "delta must lie strictly between 0 and 1"),
        (("--tried", "0"), "tried must be a whole number"),
        (("--budget", "huge"), "There is no budget 'huge'"),
        (("--posterior", "full"), "There is no posterior 'full'"),
        (("--prior", "some.safetensors"), "add --weights"),
        (("--weights", "missing.safetensors"), "missing.safetensors"),
        (("--recipe", "fats"), "fats"),
        (("--heldout", "missing.npz"), "missing.npz"),
    ],
)
def test_bad_input_gets_one_sentence_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: tuple[str, ...],
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, *arguments, "--quiet") == 2
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert len(captured.err.strip().splitlines()) == 1
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []
