"""Gradients of single examples, vectorised and one by one."""

import pytest
import torch

from curvbound.curvature import example_gradients as module
from curvbound.landscape import Landscape
from oracles.dense import jacobian
from oracles.networks import BY_NAME, GRID


@pytest.mark.parametrize("case", GRID, ids=lambda case: case.name)
def test_all_parameters_of_every_network(case):
    model, X, y = case.make()
    land = Landscape(model, (X, y))
    J = jacobian(model, X).flatten(1, -2)
    with land.differentiable():
        outputs = land.forward(X).detach()
        S = torch.randn(2, *outputs.shape, dtype=torch.float64)
        expected = torch.einsum("kbc,bcp->bkp", S.flatten(2), J)
        names = list(land.parameters)
        parts = list(module.example_gradients(land, names, X, S))
    rows = [torch.cat([t.flatten(2) for t in part.values()], 2) for _, part in parts]
    assert torch.allclose(torch.cat(rows), expected)


def test_what_torch_cannot_vectorise_runs_one_by_one(monkeypatch):
    model, X, y = BY_NAME["recurrent"].make()
    land = Landscape(model, (X, y))
    calls = []
    original = module._one_by_one
    monkeypatch.setattr(module, "_one_by_one", lambda *args: calls.append(1) or original(*args))
    with land.differentiable():
        S = torch.ones(1, len(X), 3, dtype=torch.float64)
        list(module.example_gradients(land, ["lstm.weight_hh_l0"], X, S))
    assert calls


def test_examples_come_in_groups_that_fit(monkeypatch):
    model, X, y = BY_NAME["bare"].make()
    land = Landscape(model, (X, y))
    monkeypatch.setattr("curvbound.curvature.uses.EXPLICIT", 16 * 2)
    with land.differentiable():
        S = torch.ones(1, len(X), 3, dtype=torch.float64)
        parts = [part for part, _ in module.example_gradients(land, list(land.parameters), X, S)]
    assert parts == [slice(0, 2), slice(2, 4), slice(4, 6), slice(6, 7)]
