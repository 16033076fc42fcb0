"""Figures of 000 end to end on the embedded digits."""

import json

import pytest

from curvbound.certificates.pareto import BASELINE, DIAGONAL, FULL, LOW_RANK, LOWER_BOUND
from curvbound.papers import p000
from curvbound.papers.p000_settings import PROFILES, Profile, Task

DIGITS = Task("digits-2", "F-20", "unit", True, 600, 30)
TINY = Profile("quick", True, (1e-2, 1e-1), (1e-2, 1e-1), (1e-8, 1e-5, 1e-2), 300, 20)


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(PROFILES, "quick", TINY)
    monkeypatch.setattr(p000, "TWO_CLASSES", (DIGITS,))
    monkeypatch.setattr(p000, "MORE_CLASSES", (DIGITS, DIGITS))


def silent(sentence):
    pass


def test_figure_3_has_all_methods_valid_bounds_and_files(tiny, tmp_path):
    said = []
    found = p000.figure_3("quick", out=tmp_path, seed=0, say=said.append)
    assert "digits-2: training F-20" in said
    panel = found.to_json()["results"]["panels"][0]
    methods = {p["method"] for p in panel["points"]}
    assert methods == {LOWER_BOUND, BASELINE, DIAGONAL, FULL, LOW_RANK}
    kinds = {p["method"]: p["kind"] for p in panel["points"]}
    assert kinds.pop(LOWER_BOUND) == "oracle"
    assert set(kinds.values()) == {"heuristic"}
    assert [c["method"] for c in panel["certificates"]] == [BASELINE, DIAGONAL, FULL]
    for certificate in panel["certificates"]:
        assert certificate["kind"] == "certificate"
        assert sum(certificate["delta"].values()) <= 0.05 + 1e-12
        assert certificate["risk_limit"] < certificate["bound"] <= 1
    assert panel["n"] == 600
    assert panel["gradient_norm"] > 0
    files = found.save(tmp_path / "000")
    assert json.loads((tmp_path / "000" / "fig3-quick.json").read_text()) == found.to_json()
    assert set(files) == {"json", "svg", "png"}
    assert "baseline" in (tmp_path / "000" / "fig3-quick.svg").read_text()


def test_figure_2_has_the_lower_bound_alone(tiny):
    found = p000.figure_2("quick", out=None, seed=0, say=silent)
    panel = found.results["panels"][0]
    assert {p["method"] for p in panel["points"]} == {LOWER_BOUND}
    assert [p.verdict for p in found.patterns][1] == "-"
