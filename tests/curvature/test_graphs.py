"""The part of a product that vectors share, for one chunk."""

import pytest
import torch

from curvbound.curvature.graphs import HessianGraph, JacobianGraph
from curvbound.landscape import Landscape
from oracles import dense
from oracles.networks import BY_NAME, GRID


@pytest.mark.parametrize("case", GRID, ids=lambda case: case.name)
def test_output_tangent_is_the_jacobian_product(case):
    model, inputs, targets = case.make()
    land = Landscape(model, (inputs, targets))
    names = tuple(land.parameters)
    v = torch.randn(land.size, generator=torch.Generator().manual_seed(0)).double()
    with land.differentiable():
        tangent = JacobianGraph(land, inputs, targets, names).tangent(land.unflatten(v))
    expected = dense.jacobian(model, inputs) @ v
    torch.testing.assert_close(tangent, expected, rtol=1e-10, atol=1e-12)


def test_layers_before_the_chosen_one_are_not_differentiated():
    model, inputs, targets = BY_NAME["dense"].make()
    land = Landscape(model, (inputs, targets))
    graph = HessianGraph(land, inputs, targets, land.choose("2"))
    (site,) = graph.sites
    assert site.weight == "2.weight"
    assert not site.inputs.requires_grad
