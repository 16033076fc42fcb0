"""Gram matrices of per-example gradients against explicit ones."""

import math

import pytest
import torch
from torch import nn

from curvbound.curvature.fisher import fisher
from curvbound.curvature.gram import gram
from curvbound.errors import CurvboundError
from curvbound.landscape import Landscape
from oracles.dense import term_gradients
from oracles.networks import BY_NAME, DTYPES, GRID, LOSSES

SEED = 1


def gradients(model, X, y, loss):
    rows = term_gradients(model, X, y, loss)
    return rows.reshape(len(X), -1, rows.shape[1]).sum(1)


@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("case", GRID, ids=lambda case: case.name)
def test_every_network(case, loss, dtype):
    model, X, y = case.make(loss, dtype, seed=SEED)
    chosen = [5, 0, 3, 3, 6]
    xi = gram(Landscape(model, (X, y), loss=loss, batch_size=2), chosen)
    J = gradients(model, X, y, loss)[chosen]
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    assert xi.dtype == torch.float64
    assert float((xi - J @ J.T).norm()) <= tolerance * float((J @ J.T).norm())


def test_identities_with_the_observed_fisher_matrix():
    model, X, y = BY_NAME["dense"].make(seed=SEED)
    land = Landscape(model, (X, y))
    xi = gram(land, range(len(X)))
    J = gradients(model, X, y, "cross_entropy")
    I_S = fisher(land, labels="empirical") @ torch.eye(land.size, dtype=torch.float64)
    N = len(X)
    # 002-E6, 002-E5: spectral radius and Frobenius norm of the observed Fisher matrix.
    assert torch.linalg.eigvalsh(I_S)[-1] == pytest.approx(float(torch.linalg.eigvalsh(xi)[-1]) / N)
    assert float(I_S.square().sum()) == pytest.approx(float(xi.square().sum()) / N**2)
    # ||g g^T||_F^2 = ||g||^4, and ln |xi| = 2 sum ln s(J).
    outer = torch.outer(J[0], J[0])
    assert float(outer.square().sum()) == pytest.approx(float(xi[0, 0]) ** 2)
    s = torch.linalg.svdvals(J)
    assert float(torch.linalg.slogdet(xi)[1]) == pytest.approx(2 * float(s.log().sum()), rel=1e-6)


def test_scaling_of_the_gradients():
    # Dividing the input by c divides a bias-free last layer's gradients by c when logits stay.
    torch.manual_seed(0)
    X, y = torch.randn(5, 8).double(), torch.arange(5) % 3
    model = nn.Linear(8, 3, bias=False).double().eval()
    xi = gram(Landscape(model, (X, y)), range(5))
    with torch.no_grad():
        model.weight.mul_(0.1)
    scaled = gram(Landscape(model, (X * 10, y)), range(5))
    before, after = torch.linalg.slogdet(xi)[1], torch.linalg.slogdet(scaled)[1]
    assert float(after - before) == pytest.approx(2 * 5 * math.log(10))


@pytest.mark.parametrize("margin", [20.0, 60.0, 110.0, 300.0])
def test_confident_predictions_neither_cancel_nor_underflow(margin):
    # One weight matrix, logits (margin, 0, 0) for label 0: the gradient of the logits is
    # (-2q, q, q) with q = exp(-margin) / (1 + 2 exp(-margin)).
    model = nn.Linear(2, 3, bias=False).eval()
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[margin, 0.0], [0.0, 0.0], [0.0, 0.0]]))
    X = torch.tensor([[1.0, 0.5], [1.0, -2.0]])
    xi = gram(Landscape(model, (X, torch.zeros(2, dtype=torch.int64))), [0, 1])
    q = math.exp(-margin) / (1 + 2 * math.exp(-margin))
    expected = 6 * q**2 * (X @ X.T).double()
    assert torch.allclose(xi, expected, rtol=1e-6, atol=0)


def test_order_and_duplicates():
    model, X, y = BY_NAME["conv"].make(seed=SEED)
    land = Landscape(model, (X, y), batch_size=3)
    whole = gram(land, torch.arange(7))
    chosen = torch.tensor([6, 1, 1, 4])
    assert torch.allclose(gram(land, chosen), whole[chosen][:, chosen], rtol=1e-12)


def test_restricted_to_some_parameters():
    model, X, y = BY_NAME["dense"].make(seed=SEED)
    xi = gram(Landscape(model, (X, y), parameters=["2", "4.bias"]), range(7))
    J = gradients(model, X, y, "cross_entropy")
    J = torch.cat([J[:, 24:44], J[:, -3:]], 1)
    assert torch.allclose(xi, J @ J.T)


@pytest.mark.parametrize("indices", [[], [7], [-1], [0.5], [[0]]])
def test_refuses_strange_indices(indices):
    model, X, y = BY_NAME["dense"].make()
    with pytest.raises(CurvboundError, match="indices"):
        gram(Landscape(model, (X, y)), indices)


def test_refuses_more_examples_than_fit():
    model, X, y = BY_NAME["dense"].make()
    land = Landscape(model, (X, y))
    land.memory = 2 * land.saved_bytes
    with pytest.raises(CurvboundError, match="pass fewer indices"):
        gram(land, range(7))
