import json

import pytest
import typer
from typer.testing import CliRunner

from curvbound import papers
from curvbound.cli.reproduce import reproduce
from curvbound.errors import CurvboundError
from curvbound.papers import p000
from curvbound.papers.p000_settings import PROFILES, Profile, Task


def run(*arguments):
    app = typer.Typer()
    app.command()(reproduce)
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


@pytest.fixture
def tiny(monkeypatch):
    profile = Profile("quick", True, (1e-2,), (1e-2,), (1e-8, 1e-5, 1e-2), 300, 0)
    monkeypatch.setitem(PROFILES, "quick", profile)
    monkeypatch.setattr(p000, "TWO_CLASSES", (Task("digits-2", "F-20", "unit", True, 600, 5),))


def test_it_prints_a_table_with_verdicts_and_writes_files(tiny, tmp_path):
    done = run("000", "fig2", "--out", tmp_path, "--quiet")
    assert done.exit_code == 0
    assert "holds" in done.stdout
    written = sorted(path.name for path in (tmp_path / "000").iterdir())
    assert written == ["fig2-quick.json", "fig2-quick.png", "fig2-quick.svg"]


def test_json_is_one_object(tiny, tmp_path):
    result = json.loads(run("000", "fig2", "--out", tmp_path, "--json").stdout)
    assert result["paper"] == "000"
    assert set(result["files"]) == {"json", "svg", "png"}
    assert result["patterns"][0]["verdict"] in ("yes", "no")


def test_unknown_items_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(CurvboundError, match="choose one of"):
        run("000", "table1", "--out", tmp_path / "none")
    assert not (tmp_path / "none").exists()
    assert ("000", "fig2") in papers.items()
