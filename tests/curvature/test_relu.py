"""The lean ReLU agrees with torch's own."""

import torch

from curvbound.curvature.relu import relu


def test_first_and_second_derivatives():
    x = torch.linspace(-2, 2, 9, dtype=torch.float64).requires_grad_()
    results = []
    for function in (relu, torch.relu):
        y = function(x**2 - 1)
        (first,) = torch.autograd.grad((y**3).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sin().sum(), x)
        results.append((y, first, second))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)
