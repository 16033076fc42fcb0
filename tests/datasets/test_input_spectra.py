"""Facts about the inputs alone that decide the top of the curvature (001-E18)."""

import pytest
import torch
from torch.nn.functional import unfold

from curvbound.datasets import load
from oracles.input_moments import (
    near_pixel_moment,
    patch_moments,
    second_moment,
    spectral_facts,
)
from oracles.real_data import load_or_skip


@pytest.mark.parametrize(("kernel", "padding"), [(3, 0), (3, 1), (2, 1)])
def test_patch_moments_agree_with_unfolding(kernel: int, padding: int) -> None:
    images = torch.rand(7, 3, 9, 8, generator=torch.Generator().manual_seed(0))
    mean_part, second = patch_moments(
        *near_pixel_moment(images, kernel), (3, 9, 8), kernel, padding
    )
    patches = unfold(images.double(), kernel, padding=padding)
    torch.testing.assert_close(second, (patches @ patches.mT).mean(0))
    torch.testing.assert_close(mean_part, patches.mean(0) @ patches.mean(0).T)


@pytest.mark.data
def test_mnist() -> None:
    load_or_skip("mnist")
    expected = {
        "unit": (6.857, 0.9992, 8.677),
        "symmetric": (25.142, 0.9999, 27.462),
        "mnist": (4.241, 0.9974, None),
    }
    mean, second = second_moment(load("mnist").train.inputs)
    for scaling, (ratio, inner, gap) in expected.items():
        data = load("mnist", scaling=scaling)
        (shift,), (scale,) = data.scaling.shift, data.scaling.scale
        scaled_mean = (mean - shift) / scale
        torch.testing.assert_close(
            scaled_mean, data.train.inputs.flatten(1).double().mean(0), rtol=1e-6, atol=1e-7
        )
        # The covariance only changes by the scale.
        covariance = (second - torch.outer(mean, mean)) / scale**2
        mean_part = torch.outer(scaled_mean, scaled_mean)
        facts = spectral_facts(mean_part, covariance + mean_part)
        assert round(facts[0], 3) == ratio
        assert round(facts[1], 4) == inner
        assert gap is None or round(facts[2], 3) == gap


@pytest.mark.data
def test_cifar10_patches() -> None:
    moments = near_pixel_moment(load_or_skip("cifar10").train.inputs, 5)
    for kernel, padding, ratio in ((5, 0, 5.474), (3, 0, 4.686), (3, 1, 4.637)):
        facts = spectral_facts(*patch_moments(*moments, (3, 32, 32), kernel, padding))
        assert round(facts[0], 3) == ratio
        assert round(facts[1], 4) == 0.9999
