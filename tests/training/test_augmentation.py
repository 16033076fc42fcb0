import pytest
import torch
from torch.nn import functional

from curvbound.errors import CurvboundError
from curvbound.training.augmentation import crop_flip, resolve_augmentation


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_every_image_is_a_crop_of_its_padded_self_mirrored_or_not():
    images = torch.rand(40, 3, 6, 5, generator=generator(1))
    results = crop_flip(images, generator())
    mirrored = 0
    for image, result in zip(images, results, strict=True):
        padded = functional.pad(image, (4, 4, 4, 4))
        crops = [padded[:, i : i + 6, j : j + 5] for i in range(9) for j in range(9)]
        plain = any(torch.equal(crop, result) for crop in crops)
        flipped = any(torch.equal(crop.flip(2), result) for crop in crops)
        assert plain or flipped
        mirrored += flipped
    assert 10 <= mirrored <= 30


def test_the_generator_decides_everything():
    images = torch.rand(8, 1, 4, 4)
    assert torch.equal(crop_flip(images, generator(3)), crop_flip(images, generator(3)))
    assert not torch.equal(crop_flip(images, generator(3)), crop_flip(images, generator(4)))


def test_what_is_no_image_is_refused():
    with pytest.raises(CurvboundError, match="needs images"):
        crop_flip(torch.rand(8, 4), generator())


def test_an_unknown_name_is_refused():
    with pytest.raises(CurvboundError, match="no augmentation 'mixup'"):
        resolve_augmentation("mixup")
