"""The pass over the data behind diagonals and traces."""

import pytest
import torch

from curvbound.curvature import squares
from curvbound.curvature.square_pass import output_roots, plan_for, sum_squares
from curvbound.errors import CurvboundError
from curvbound.landscape import Landscape
from oracles.dense import jacobian
from oracles.networks import BY_NAME


def test_any_cotangents(monkeypatch):
    monkeypatch.setattr(squares, "HELD", 1)  # multiply after every backward pass
    model, X, y = BY_NAME["conv"].make()
    land = Landscape(model, (X, y), batch_size=2)
    starts = []

    def cotangents(outputs, targets, start):
        starts.append(start)
        return torch.stack([outputs, 2 * torch.ones_like(outputs)])

    result = sum_squares(land, tuple(land.parameters), cotangents)
    J = jacobian(model, X)
    outputs = land.forward(X).detach()
    rows = [torch.einsum("bc,bcp->bp", v, J) for v in (outputs, 2 * torch.ones_like(outputs))]
    expected = torch.cat(rows).square().sum(0)
    assert torch.allclose(torch.cat([result[n].reshape(-1) for n in land.parameters]), expected)
    # Chunks are cut as equal as possible; each is told how many labels came before it.
    assert starts[0] == 0
    assert starts == sorted(starts)
    assert starts[-1] < 7


def test_only_layers_with_wanted_parameters_are_watched():
    model, X, y = BY_NAME["dense"].make()
    land = Landscape(model, (X, y))
    plan = plan_for(land, ["2.bias"])
    assert list(plan.watched) == [model[2]]
    assert plan.watched[model[2]] == {"bias": "2.bias"}
    result = sum_squares(land, ["2.bias"], lambda z, _y, _s: torch.ones_like(z).unsqueeze(0))
    assert list(result) == ["2.bias"]


@pytest.mark.parametrize("name", ["twice", "tied"])
def test_parameters_used_several_times_have_the_sum_of_gradients(name):
    model, X, y = BY_NAME[name].make(seed=1)
    land = Landscape(model, (X, y), batch_size=3)
    assert max(plan_for(land, tuple(land.parameters)).calls.values()) == 2
    result = sum_squares(
        land, tuple(land.parameters), lambda z, _y, _s: torch.ones_like(z).unsqueeze(0)
    )
    J = jacobian(model, X).flatten(1, -2).sum(1)
    flat = torch.cat([result[n].reshape(-1) for n in land.parameters])
    assert torch.allclose(flat, J.square().sum(0))


def test_refuses_output_hessians_that_do_not_fit():
    model, X, y = BY_NAME["dense"].make()
    land = Landscape(model, (X, y))
    land.memory = 100
    with pytest.raises(CurvboundError, match="pass a smaller batch_size="):
        sum_squares(land, tuple(land.parameters), output_roots(land))
