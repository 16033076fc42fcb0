"""The operators' exact traces against their dense matrices, and where none is offered."""

import pytest
import torch
from torch import nn

from curvbound import Landscape, fisher, gauss_newton, hessian, trace


def landscape(activation: nn.Module, width: int = 6) -> Landscape:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(5, width), activation, nn.Linear(width, width), nn.Linear(width, 4)
    )
    data = torch.randn(12, 5, dtype=torch.float64), torch.arange(12) % 4
    return Landscape(model.double().eval(), data)


@pytest.mark.parametrize("layer", [None, "0", ["0", "2"], "2.bias"])
@pytest.mark.parametrize("operator", [hessian, gauss_newton])
def test_exact_trace_needs_no_products(operator, layer) -> None:
    H = operator(landscape(nn.ReLU()), layer=layer)
    found = trace(H)
    assert found.exact
    assert found.matvecs == 0
    assert found.value == pytest.approx(float(H.dense().trace()), rel=1e-12)


def test_a_curved_network_gets_an_estimate() -> None:
    H = hessian(landscape(nn.Tanh(), width=30))
    assert H.shape[0] > 1024
    found = trace(H, seed=1)
    assert not found.exact
    assert abs(found.value - float(H.dense().trace())) < 6 * found.stderr


def test_empirical_fisher_does_not_pass_for_gauss_newton() -> None:
    land = landscape(nn.ReLU(), width=30)
    empirical = fisher(land, labels="empirical")
    found, true = trace(empirical), float(empirical.dense().trace())
    assert abs(found.value - true) <= 6 * found.stderr + 1e-9 * true
    assert abs(true - trace(gauss_newton(land)).value) > 1e-3 * true
    assert float(trace(fisher(land)).value) == pytest.approx(
        float(trace(gauss_newton(land)).value), rel=1e-12
    )
