"""Diagonals against dense matrices."""

import pytest
import torch
from torch import nn

from curvbound.curvature.diagonal import diagonal, hessian_diagonal
from curvbound.curvature.fisher import fisher
from curvbound.errors import CurvboundError
from curvbound.landscape import Landscape
from oracles.dense import gauss_newton, hessian
from oracles.networks import BY_NAME, DTYPES, GRID, LOSSES

SEED = 1


def relative(a, b):
    return float((a.double() - b).norm() / b.norm())


@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("case", GRID, ids=lambda case: case.name)
def test_gauss_newton_and_hessian(case, loss, dtype):
    model, X, y = case.make(loss, dtype, seed=SEED)
    land = Landscape(model, (X, y), loss=loss, batch_size=3)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-4
    result = diagonal(land)
    assert result.dtype == dtype
    assert relative(result, gauss_newton(model, X, y, loss).diagonal()) < tolerance
    exact = hessian(model, X, y, loss).diagonal()
    assert relative(diagonal(land, kind="hessian"), exact) < tolerance


@pytest.mark.parametrize("name", ["conv", "residual", "shared", "bag"])
def test_piecewise_linear_networks_need_no_hessian_products(name):
    model, X, y = BY_NAME[name].make(seed=SEED)
    result = hessian_diagonal(Landscape(model, (X, y)))
    assert result.matvecs == 0
    assert result.samples == 0
    assert result.seed is None


def test_only_curved_layers_are_probed():
    model, X, y = BY_NAME["twice"].make(seed=SEED)
    result = hessian_diagonal(Landscape(model, (X, y)), samples=5, seed=3)
    assert result.matvecs == 5
    exact = hessian(model, X, y, "cross_entropy").diagonal()
    known = result.stderr == 0
    assert int((~known).sum()) <= 20
    assert torch.allclose(result.values[known], exact[known])


def test_hutchinson_is_unbiased_with_an_honest_error():
    model, X, y = BY_NAME["tanh"].make(seed=SEED)
    land = Landscape(model, (X, y))
    result = hessian_diagonal(land, samples=2000, seed=0)
    exact = hessian(model, X, y, "cross_entropy").diagonal()
    deviations = (result.values - exact) / result.stderr.clamp(min=1e-12)
    # About 39 correlated normal deviates: their mean square is near one.
    assert 0.3 < float(deviations.square().mean()) < 2.5
    assert torch.equal(diagonal(land, "hessian", samples=10), diagonal(land, "hessian", samples=10))
    one, other = (hessian_diagonal(land, samples=10, seed=seed).values for seed in (0, 1))
    assert not torch.equal(one, other)


def test_one_probe_has_no_known_error():
    model, X, y = BY_NAME["tanh"].make(seed=SEED)
    assert bool(torch.isinf(hessian_diagonal(Landscape(model, (X, y)), samples=1).stderr).all())


def test_sampled_fisher_is_the_diagonal_of_the_sampled_operator():
    model, X, y = BY_NAME["conv"].make(seed=SEED)
    land = Landscape(model, (X, y), batch_size=3)
    dense = fisher(land, labels="sampled", samples=4, seed=5) @ torch.eye(
        land.size, dtype=torch.float64
    )
    result = diagonal(land, kind="fisher", samples=4, seed=5)
    assert torch.allclose(result, dense.diagonal())


@pytest.mark.parametrize("loss", LOSSES)
def test_sampled_fisher_tends_to_the_gauss_newton_diagonal(loss):
    model, X, y = BY_NAME["dense"].make(loss, seed=SEED)
    land = Landscape(model, (X, y), loss=loss)
    result = diagonal(land, kind="fisher", samples=4000)
    assert relative(result, gauss_newton(model, X, y, loss).diagonal()) < 0.05


def test_drawn_labels_do_not_depend_on_batching():
    model, X, y = BY_NAME["dense"].make(seed=SEED)
    results = [
        diagonal(Landscape(model, (X, y), batch_size=size), kind="fisher", samples=3, seed=2)
        for size in (2, 7)
    ]
    assert torch.allclose(*results, rtol=1e-12)


def test_refusals():
    model, X, y = BY_NAME["dense"].make(seed=SEED)
    land = Landscape(model, (X, y))
    with pytest.raises(CurvboundError, match="kind must be"):
        diagonal(land, kind="kfac")
    with pytest.raises(CurvboundError, match="samples must be at least 1"):
        diagonal(land, kind="fisher", samples=0)
    wide = nn.Sequential(nn.Linear(5, 200), nn.Tanh(), nn.Linear(200, 3)).double().eval()
    with pytest.raises(CurvboundError, match="pass samples="):
        diagonal(Landscape(wide, (X, y)), kind="hessian")
