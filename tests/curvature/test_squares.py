"""Sums of squared gradients of one chunk."""

import torch
from torch import nn

from curvbound.curvature.captures import Plan
from curvbound.curvature.squares import ChunkSquares
from curvbound.curvature.uses import make_use


def dense_chunk(x, roles):
    module = nn.Linear(3, 2).double()
    use = make_use(module, roles, x, module(x).detach(), len(x))
    totals = {
        name: torch.zeros_like(getattr(module, role)).detach() for role, name in roles.items()
    }
    plan = Plan({module: roles}, {}, dict.fromkeys(totals, 1))
    return totals, ChunkSquares(totals, [use], plan, frozenset(totals))


def test_norms_are_the_sum_of_the_squares():
    torch.manual_seed(0)
    x = torch.randn(4, 3).double()
    gs = [torch.randn(4, 2).double() for _ in range(3)]
    for roles in ({"weight": "w", "bias": "b"}, {"weight": "w"}, {"bias": "b"}):
        totals, chunk = dense_chunk(x, roles)
        _, again = dense_chunk(x, roles)
        for g in gs:
            chunk.add([g])
            again.add([g])
        chunk.finish()
        total = sum(float(part.sum()) for part in totals.values())
        assert abs(float(again.finish_norms()) / total - 1) < 1e-14


def test_parameters_that_are_not_asked_for_are_left_out():
    x = torch.ones(4, 3).double()
    totals, _ = dense_chunk(x, {"weight": "w", "bias": "b"})
    module = nn.Linear(3, 2).double()
    use = make_use(module, {"weight": "w", "bias": "b"}, x, module(x).detach(), 4)
    plan = Plan({module: use.roles}, {}, {"w": 1, "b": 1})
    chunk = ChunkSquares(totals, [use], plan, frozenset({"b"}))
    chunk.add([torch.ones(4, 2).double()])
    chunk.finish()
    assert bool((totals["w"] == 0).all())
    assert torch.equal(totals["b"], torch.full((2,), 4.0, dtype=torch.float64))
