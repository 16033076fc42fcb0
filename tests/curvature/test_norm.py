"""BatchNorm with fixed statistics agrees with torch's own."""

import pytest
import torch
from torch.nn import functional

from curvbound.curvature.conv import Switch
from curvbound.curvature.norm import Standardisation, standardise


@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 2), (4, 3, 2, 2)])
@pytest.mark.parametrize("with_bias", [True, False])
def test_first_and_second_derivatives(shape, with_bias):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
    weight, bias, mean = torch.randn(3, 3, generator=generator, dtype=torch.float64)
    weight.requires_grad_()
    ends = [x, weight]
    if with_bias:
        ends.append(bias.requires_grad_())
    variance = torch.rand(3, generator=generator, dtype=torch.float64) + 0.5
    fixed, on = Standardisation(mean, variance, 1e-3), Switch()
    used = bias if with_bias else None
    functions = (
        lambda inputs: standardise(inputs, weight, used, fixed, on),
        lambda inputs: functional.batch_norm(inputs, mean, variance, weight, used, eps=1e-3),
    )
    results = []
    for function in functions:
        y = function(x * x)
        first = torch.autograd.grad(y.sin().sum(), ends, retain_graph=True)
        on.weights = False
        (delta,) = torch.autograd.grad((y**3).sum(), x, create_graph=True)
        on.weights = True
        second = torch.autograd.grad((delta * delta.detach().cos()).sum(), ends)
        results.append([y, *first, *second])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)
