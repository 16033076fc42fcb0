from pathlib import Path

import numpy as np
import pytest
import torch

from curvbound.datasets import load, names
from curvbound.datasets.registry import _parse
from curvbound.errors import CurvboundError


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mnist", ("mnist", None, False)),
        ("MNIST-R", ("mnist", None, True)),
        ("mnist-2", ("mnist", 2, False)),
        ("mnist-5-random", ("mnist", 5, True)),
        ("cifar-2", ("cifar10", 2, False)),
        ("CIFAR-10", ("cifar10", 10, False)),
        ("cifar-10-R", ("cifar10", 10, True)),
        ("cifar10-5", ("cifar10", 5, False)),
        ("fashion_mnist", ("fashion-mnist", None, False)),
        ("fashion-mnist-2", ("fashion-mnist", 2, False)),
        ("cifar-100", None),
        ("svhn", None),
        ("", None),
    ],
)
def test_names_of_variants(name: str, expected: object) -> None:
    assert _parse(name) == expected


def test_variants_of_digits() -> None:
    plain = load("digits").train
    assert torch.equal(load("digits-2").train.targets, plain.targets // 5)
    assert torch.equal(load("digits-5").train.targets, plain.targets // 2)
    first, second = load("digits-R", seed=1).train, load("digits-random", seed=2).train
    assert torch.equal(first.targets, plain.random_labels(1).targets)
    assert not torch.equal(first.targets, second.targets)
    assert first.overlap(plain) == len(plain)


def test_scaling_choices() -> None:
    plain = load("digits").train.inputs
    assert torch.equal(load("digits", scaling="symmetric").train.inputs, (plain - 0.5) / 0.5)
    own = load("digits", scaling=(0.25, 2.0))
    assert torch.equal(own.train.inputs, (plain - 0.25) / 2)
    assert own.test is not None
    assert own.test.scaling == own.scaling


def test_scaled_and_unscaled_rows_are_known_to_be_the_same() -> None:
    assert load("digits", scaling="mnist").train.overlap(load("digits").train) == 1437


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mnits", r"no data set or file 'mnits', did you mean (fmnist or )?mnist"),
        ("zzz", "known: digits, mnist, fashion-mnist, cifar10"),
        ("cifar100", "not fetched by name, so give the path"),
        ("tiny-imagenet", "not fetched by name, so give the path"),
        ("./none", "no file or folder"),
        ("digits-1", "choose 2 to 10"),
        ("digits-11", "choose 2 to 10"),
    ],
)
def test_unknown_names(name: str, message: str) -> None:
    with pytest.raises(CurvboundError, match=message):
        load(name)


def test_unknown_scaling_is_noticed_before_loading() -> None:
    with pytest.raises(CurvboundError, match="unknown scaling"):
        load("zzz", scaling="big")


def test_paths_and_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "own.npz", X=np.eye(2), y=[0, 1])
    assert load("own.npz").train.hash == load(tmp_path / "own.npz").train.hash
    (tmp_path / "digits").mkdir()
    assert load("digits").source == "bundled with scikit-learn"
    with pytest.raises(CurvboundError, match="0 class folders"):
        load("./digits")


def test_every_name_can_be_said() -> None:
    assert all(_parse(name) == (name, None, False) for name in names())
