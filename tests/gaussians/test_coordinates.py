import pytest
import torch

from curvbound.errors import CurvboundError
from curvbound.gaussians.coordinates import CoordinateNoise, positive_scales, scales_from
from curvbound.gaussians.layout import layouts_of


def test_one_number_serves_all_parameters():
    mean = {"a": torch.zeros(2, 3), "b": torch.zeros(())}
    scales = positive_scales(mean, 0.1, "radius")
    assert torch.equal(scales["a"], torch.full((2, 3), 0.1, dtype=torch.float64))
    assert scales["b"].shape == ()


@pytest.mark.parametrize("bad", [{}, {"a": torch.ones(3)}, {"a": torch.zeros(2)}])
def test_missing_or_bad_scales_are_refused(bad):
    with pytest.raises(CurvboundError, match="radius of parameter 'a'"):
        positive_scales({"a": torch.zeros(2)}, bad, "radius")


def test_noise_is_made_from_uniform_numbers():
    mean = {"fc.weight": torch.zeros(2, 3), "fc.bias": torch.zeros(2)}
    noise = CoordinateNoise(layouts_of(mean)["fc"], lambda numbers: 3 + numbers)
    found = noise.standard_noise(
        4, torch.Generator().manual_seed(0), torch.float32, torch.device("cpu")
    )
    numbers = torch.rand(4, 2, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert torch.equal(found, (3 + numbers).float())


def test_stored_scales_are_found_by_kind():
    tensors = {"radius/a": torch.ones(1), "deviation/a": torch.zeros(1)}
    assert scales_from(tensors, "radius") == {"a": tensors["radius/a"]}
