"""The exact trace against dense matrices."""

import pytest
import torch

from curvbound.curvature.exact_trace import gauss_newton_trace
from curvbound.landscape import Landscape
from oracles.dense import gauss_newton, hessian, positions_of
from oracles.networks import BY_NAME, DTYPES, GRID, LOSSES

SEED = 1


@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("case", GRID, ids=lambda case: case.name)
def test_trace(case, loss, dtype):
    model, X, y = case.make(loss, dtype, seed=SEED)
    land = Landscape(model, (X, y), loss=loss, batch_size=3)
    exact = float(gauss_newton(model, X, y, loss).trace())
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    assert gauss_newton_trace(land) == pytest.approx(exact, rel=tolerance)


@pytest.mark.parametrize("name", ["dense", "conv", "residual", "shared"])
def test_it_is_the_trace_of_the_hessian_of_piecewise_linear_networks(name):
    model, X, y = BY_NAME[name].make(seed=SEED)
    land = Landscape(model, (X, y))
    assert all(land.block_is_gauss_newton(layer) for layer in land.layers)
    exact = float(hessian(model, X, y, "cross_entropy").trace())
    assert gauss_newton_trace(land) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("dense", "2"),
        ("conv", "0"),
        ("residual", "norm"),
        ("bag", "embedding"),
        ("dense", "4.bias"),
    ],
)
def test_one_layer(name, layer):
    model, X, y = BY_NAME[name].make(seed=SEED)
    where = positions_of(model, [layer])
    exact = float(gauss_newton(model, X, y, "cross_entropy").diagonal()[where].sum())
    assert gauss_newton_trace(Landscape(model, (X, y)), layer) == pytest.approx(exact, rel=1e-12)
