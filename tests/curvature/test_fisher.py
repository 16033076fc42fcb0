"""Fisher matrices: identities, seeds, and the empirical one."""

import pytest
import torch

from curvbound.curvature.fisher import fisher, uniform_numbers
from curvbound.errors import CurvboundError
from curvbound.landscape import Landscape
from oracles import dense
from oracles.networks import BY_NAME, GRID, LOSSES
from oracles.reference import reference


def land_of(name: str, loss: str = "cross_entropy", batch_size: int = 3) -> Landscape:
    model, inputs, targets = BY_NAME[name].make(loss)
    return Landscape(model, (inputs, targets), loss=loss, batch_size=batch_size)


@pytest.mark.parametrize("case", GRID, ids=lambda case: case.name)
@pytest.mark.parametrize("loss", LOSSES)
def test_empirical(case, loss):
    expected = reference("empirical_fisher", case.name, loss)
    F = fisher(land_of(case.name, loss), labels="empirical")
    V = torch.randn(len(expected), 2, generator=torch.Generator().manual_seed(1)).double()
    torch.testing.assert_close(F @ V, expected @ V, rtol=1e-10, atol=1e-12)


def test_model_labels_give_the_gauss_newton_matrix():
    """T-8: sum_c p_c g_c g_c^T, with g_c the gradient for label c, is the Gauss-Newton matrix."""
    model, inputs, targets = BY_NAME["dense"].make()
    p = model(inputs).softmax(1).detach()
    total = torch.zeros_like(reference("gauss_newton", "dense", "cross_entropy"))
    for label in range(3):
        g = dense.term_gradients(model, inputs, torch.full_like(targets, label), "cross_entropy")
        total += (g * p[:, label : label + 1]).T @ g / len(inputs)
    torch.testing.assert_close(total, reference("gauss_newton", "dense", "cross_entropy"))
    torch.testing.assert_close(fisher(land_of("dense")).dense(), total)
    empirical = reference("empirical_fisher", "dense", "cross_entropy")
    assert (empirical - total).norm() > 0.1 * total.norm()


@pytest.mark.parametrize("loss", LOSSES)
def test_sampled_labels_approach_the_exact_matrix(loss):
    land = land_of("tanh", loss)
    exact = reference("gauss_newton", "tanh", loss)
    v = torch.ones(land.size).double()
    errors = [
        float((fisher(land, labels="sampled", samples=k, seed=5) @ v - exact @ v).norm())
        for k in (1, 500)
    ]
    assert errors[1] < 0.2 * float((exact @ v).norm())
    assert errors[1] < errors[0]


@pytest.mark.parametrize("loss", LOSSES)
def test_sampled_labels_do_not_depend_on_batching(loss):
    v = torch.ones(land_of("dense").size).double()
    products = [
        fisher(land_of("dense", loss, batch_size), labels="sampled", samples=2, seed=3) @ v
        for batch_size in (1, 2, 7)
    ]
    torch.testing.assert_close(products[0], products[1])
    torch.testing.assert_close(products[0], products[2])


def test_seeds():
    land = land_of("dense")
    v = torch.ones(land.size).double()
    first, again, other = (fisher(land, labels="sampled", seed=seed) @ v for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_uniform_numbers_are_one_stream():
    whole = uniform_numbers(4, 1, 0, torch.zeros(10))
    parts = torch.cat([uniform_numbers(4, 1, 0, whole[:3]), uniform_numbers(4, 1, 3, whole[3:])])
    assert torch.equal(whole, parts)


def test_wrong_arguments():
    land = land_of("dense")
    with pytest.raises(CurvboundError, match="labels must be exact, sampled or empirical"):
        fisher(land, labels="true")
    with pytest.raises(CurvboundError, match="samples must be at least 1"):
        fisher(land, labels="sampled", samples=0)
