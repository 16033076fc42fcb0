"""The convolution with cheap second derivatives agrees with torch's own."""

import itertools

import pytest
import torch
from torch import Tensor

from curvbound.curvature.conv import Geometry, Switch, convolve

GEOMETRIES = [
    (dimensions, Geometry((s,) * dimensions, (p,) * dimensions, (d,) * dimensions, g))
    for dimensions, s, p, d, g in itertools.product((1, 2), (1, 2), (0, 2), (1, 2), (1, 2))
]


@pytest.mark.parametrize(("dimensions", "geometry"), GEOMETRIES)
@pytest.mark.parametrize("with_bias", [True, False])
def test_first_and_second_derivatives(dimensions, geometry, with_bias):
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()

    x = draw(2, 4, *[7] * dimensions)
    weight = draw(4, 4 // geometry.groups, *[3] * dimensions)
    bias = draw(4) if with_bias else None
    ends = [x, weight] + ([bias] if with_bias else [])
    native = {1: torch.nn.functional.conv1d, 2: torch.nn.functional.conv2d}[dimensions]
    on = Switch()

    def ours(inputs: Tensor) -> Tensor:
        return convolve(inputs, weight, bias, geometry, on)

    def theirs(inputs: Tensor) -> Tensor:
        return native(
            inputs, weight, bias, geometry.stride, geometry.padding, geometry.dilation,
            geometry.groups,
        )  # fmt: skip

    results = []
    for function in (ours, theirs):
        y = function(x * x)
        first = torch.autograd.grad(y.sin().sum(), ends, retain_graph=True)
        on.weights = False
        (delta,) = torch.autograd.grad((y**3).sum(), x, create_graph=True)
        on.weights = True
        second = torch.autograd.grad((delta * delta.detach().cos()).sum(), ends, allow_unused=True)
        results.append([y, *first, *second])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)
