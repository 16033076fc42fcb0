import json

import torch

from curvbound.datasets import Dataset, Examples


def make(test: bool = True) -> Dataset:
    def part(name: str) -> Examples:
        return Examples(torch.rand(400, 3), torch.arange(400) % 4, 4, name)

    names = ("a", "b", "c", "d")
    return Dataset("toy", part("train"), part("test") if test else None, names, "made", "memory")


def test_merge_names_the_groups() -> None:
    merged = make().merge(2)
    assert merged.class_names == ("a+b", "c+d")
    assert merged.classes == merged.train.classes == 2
    assert merged.test is not None
    assert merged.test.classes == 2


def test_random_labels_differ_between_the_parts() -> None:
    drawn = make().random_labels(3)
    assert drawn.test is not None
    agreement = (drawn.train.targets == drawn.test.targets).double().mean()
    assert abs(float(agreement) - 0.25) < 5 * 0.022


def test_scaling_is_the_same_in_both_parts() -> None:
    scaled = make().scaled((1.0, 2.0))
    assert scaled.test is not None
    assert scaled.scaling is scaled.train.scaling
    assert scaled.test.scaling == scaled.scaling


def test_without_a_test_part() -> None:
    data = make(test=False)
    assert data.merge(2).test is None
    assert data.random_labels(0).test is None
    assert data.scaled("unit").test is None
    assert data.summary()["test"] is None


def test_summary_is_plain() -> None:
    data = make()
    summary = json.loads(json.dumps(data.summary()))
    assert summary["train"] == {
        "examples": 400,
        "class_counts": [100] * 4,
        "hash": data.train.hash,
    }
    assert summary["shape"] == [3]
    assert summary["class_names"] == ["a", "b", "c", "d"]
    assert summary["scaling"] == {"name": "none", "shift": [0.0], "scale": [1.0], "fitted": False}
