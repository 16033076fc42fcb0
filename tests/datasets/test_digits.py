import torch

from curvbound.datasets import load


def test_digits_are_split_once_and_for_all() -> None:
    data = load("digits")
    assert data.test is not None
    assert (len(data.train), len(data.test), data.shape, data.classes) == (1437, 360, (1, 8, 8), 10)
    assert data.train.hash == "bfa5a1c58d9a4632a3cb42ebdceb94ecd34da2af352c17ad0f7c3ba0c988a0b6"
    assert data.test.hash == "7862a745fc1ff16222dbc7992ff715033b9123e4a2e47aef93653e9df0f6b832"
    assert data.train.overlap(data.test) == 0


def test_grey_levels_lie_between_0_and_1() -> None:
    inputs = load("digits").train.inputs
    assert inputs.dtype == torch.float32
    assert (float(inputs.min()), float(inputs.max())) == (0.0, 1.0)
    assert torch.equal(inputs * 16, (inputs * 16).round())
