"""Figures of 000 end to end on the embedded digits, and the verdicts on made-up points."""

import json

import pytest

from curvbound.certificates.tradeoff import BASELINE, DIAGONAL, FULL, LOW_RANK, LOWER_BOUND, Point
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


def test_trained_networks_are_used_again(tiny, tmp_path):
    first = p000.figure_2("quick", out=tmp_path, seed=0, say=silent)
    record = tmp_path / "networks" / "digits-2-quick-0" / "final.safetensors"
    written = record.stat().st_mtime_ns
    second = p000.figure_2("quick", out=tmp_path, seed=0, say=silent)
    assert record.stat().st_mtime_ns == written
    assert first.to_json() == second.to_json()


def test_figure_2_has_the_lower_bound_alone(tiny):
    found = p000.figure_2("quick", out=None, seed=0, say=silent)
    panel = found.results["panels"][0]
    assert {p["method"] for p in panel["points"]} == {LOWER_BOUND}
    assert [p.verdict for p in found.patterns][1] == "-"


def point(method, accuracy, complexity):
    return Point(method, "heuristic", 1.0, 1.0, accuracy, 0.0, complexity, 0.0)


def test_a_guessing_posterior_does_not_count_as_a_crossing():
    from curvbound.papers.p000_patterns import crosses

    guess = [point("m", 0.5, 0.05), point("m", 0.76, 0.9)]
    assert not crosses(guess, 2)
    assert crosses([*guess, point("m", 0.9, 0.6)], 2)
    assert not crosses([*guess, point("m", 0.9, 0.6)], 2, limit=0.5)


def test_ordering_is_decided_at_equal_accuracy():
    from curvbound.papers.p000_patterns import ordered

    def curve(method, factor):
        return [point(method, a, factor * a) for a in (0.6, 0.8, 1.0)]

    down = {BASELINE: curve(BASELINE, 3), DIAGONAL: curve(DIAGONAL, 2), FULL: curve(FULL, 1)}
    assert ordered(down, 2)
    assert not ordered({**down, FULL: curve(FULL, 2.5)}, 2)
    assert ordered({**down, FULL: curve(FULL, 2.01)}, 2)  # within the noise of five draws
