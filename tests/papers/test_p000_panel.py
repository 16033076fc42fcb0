"""One network with its points."""

from curvbound.certificates.pareto import LOWER_BOUND
from curvbound.papers.p000_panel import panel
from curvbound.papers.p000_settings import Profile, Task

TASK = Task("digits-2", "F-20", "unit", True, 600, 30)
TINY = Profile("quick", True, (1e-2,), (1e-2,), (1e-8, 1e-5), 300, 0)


def silent(sentence):
    pass


def test_trained_networks_are_used_again(tmp_path):
    first = panel(TASK, TINY, tmp_path, 0, silent, compare=False)
    weights = tmp_path / "networks" / "digits-2-quick-0" / "final.safetensors"
    written = weights.stat().st_mtime_ns
    second = panel(TASK, TINY, tmp_path, 0, silent, compare=False)
    assert weights.stat().st_mtime_ns == written
    assert first.to_json() == second.to_json()


def test_facts_say_what_the_paper_assumes_away():
    found = panel(TASK, TINY, None, 0, silent, compare=False)
    assert set(found.points) == {LOWER_BOUND}
    assert found.facts["loss_at_mean"] > 0
    assert found.facts["gradient_norm"] > 0
    assert found.facts["accuracy_examples"] == 300
    assert found.facts["train_error"] < 0.3
    assert all(p["pareto"] in (True, False) for p in found.to_json()["points"])
