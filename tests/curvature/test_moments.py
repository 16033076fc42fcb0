"""Second moments of inputs with and without weight and bias."""

import pytest
import torch
from torch import nn

from curvbound.curvature.moments import InputMoment
from curvbound.curvature.uses import make_use

WEIGHT, BIAS = {"weight": "w"}, {"bias": "b"}


def moment(module, x, roles):
    use = make_use(module, roles, x, module(x).detach(), len(x))
    running = InputMoment(use, x)
    running.add(use)
    running.add(use)
    return running.finish()


@pytest.mark.parametrize("examples", [2, 100])
def test_convolution_both_ways(examples):
    # A hundred examples take the row-wise way, two the unfolded one.
    torch.manual_seed(0)
    conv = nn.Conv2d(2, 3, 3, padding=1).double()
    x = torch.randn(examples, 2, 4, 4).double()
    X = nn.functional.unfold(x, 3, padding=1)
    X = torch.cat([X, torch.ones_like(X[:, :1])], 1)
    expected = 2 * torch.einsum("bnp,bkp->nk", X, X)
    assert torch.allclose(moment(conv, x, WEIGHT | BIAS)[0], expected)
    assert torch.allclose(moment(conv, x, WEIGHT)[0], expected[:-1, :-1])
    assert torch.allclose(moment(conv, x, BIAS)[0], expected[-1:, -1:])


def test_normalisation_layers_have_one_input_per_neuron():
    torch.manual_seed(0)
    x = torch.randn(3, 2, 5).double()
    norm = nn.GroupNorm(1, 2).double()
    z = nn.functional.group_norm(x, 1)
    result = moment(norm, x, WEIGHT | BIAS)
    assert result.shape == (2, 2, 2)
    assert torch.allclose(result[:, 0, 0], 2 * z.square().sum((0, 2)))
    assert torch.allclose(result[:, 0, 1], 2 * z.sum((0, 2)))
    assert torch.equal(result[:, 1, 1], torch.full((2,), 30.0, dtype=torch.float64))
