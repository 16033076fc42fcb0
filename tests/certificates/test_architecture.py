import pytest
import torch
from torch import nn

from curvbound import CurvboundError, networks
from curvbound.certificates.architecture import network_of, rebuild
from curvbound.gaussians import isotropic


def test_a_specification_gives_its_network_again():
    model = networks.build("F-5", (4,), 3, seed=7)
    again = rebuild(networks.specification(model))
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_nonsense_is_refused():
    with pytest.raises(CurvboundError, match="arguments that no network"):
        rebuild({"module": "os"})
    with pytest.raises(CurvboundError, match="There is no network"):
        rebuild({"name": "os:system", "input_shape": [4], "classes": 2})


def test_the_given_network_goes_before_the_specification():
    model = nn.Sequential(nn.Linear(4, 3))
    posterior = isotropic(dict(model.named_parameters()), 0.1)
    found = network_of({"name": "F-5", "input_shape": [4], "classes": 3}, model, posterior, None)
    assert isinstance(found[0], nn.Linear)
    assert found is not model
    assert not found.training
    assert network_of(None, None, posterior, None) is None


def test_a_network_without_its_weights_is_none():
    """Fresh weights must never pass for those of a hold-out certificate."""
    specification = {"name": "F-5", "input_shape": [4], "classes": 3}
    assert network_of(specification, None, None, None) is None
