"""What all matrix-free operators have in common."""

import weakref

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from curvbound.curvature.fisher import fisher
from curvbound.curvature.gauss_newton import gauss_newton
from curvbound.curvature.hessian import hessian
from curvbound.errors import CurvboundError
from curvbound.landscape import Landscape
from oracles.networks import BY_NAME, GRID

OPERATORS = {
    "hessian": hessian,
    "gauss_newton": gauss_newton,
    "sampled": lambda land: fisher(land, labels="sampled"),
    "empirical": lambda land: fisher(land, labels="empirical"),
}


def land_of(name: str = "dense", **options) -> Landscape:
    model, inputs, targets = BY_NAME[name].make()
    return Landscape(model, (inputs, targets), **options)


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
@settings(max_examples=15)
@given(case=st.sampled_from(GRID), seed=st.integers(0, 1000), a=st.floats(-3, 3))
def test_linear_symmetric_and_semi_definite(operator, case, seed, a):
    model, inputs, targets = case.make()
    A = operator(Landscape(model, (inputs, targets)))
    generator = torch.Generator().manual_seed(seed)
    u, v = torch.randn(2, A.shape[0], generator=generator).double()
    Au, Av = (A @ torch.stack([u, v], 1)).unbind(1)
    scale = 1e-11 * (1 + Au.norm() + Av.norm()) * (u.norm() + v.norm())
    assert (A @ (a * u + v) - (a * Au + Av)).norm() <= scale
    assert abs(u @ Av - v @ Au) <= scale
    if A.psd:
        assert u @ Au >= -scale


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
@pytest.mark.parametrize("case", ["conv", "tied", "transformer"])
def test_batching_and_keeping_do_not_change_the_result(operator, case):
    model, inputs, targets = BY_NAME[case].make()
    v = torch.ones(Landscape(model, (inputs, targets)).size).double()
    products = []
    for options in ({"batch_size": 1}, {"batch_size": 3}, {"batch_size": 3, "memory": 60_000}, {}):
        A = operator(Landscape(model, (inputs, targets), **options))
        products += [A @ v, A @ v]
    for first, second in zip(products[::2], products[1::2], strict=True):
        assert torch.equal(first, second)
    assert torch.equal(products[2], products[4])
    for product in products[2:]:
        torch.testing.assert_close(product, products[0], rtol=1e-11, atol=1e-13)


def test_blocks_count_every_vector():
    H = hessian(land_of())
    V = torch.randn(H.shape[0], 4).double()
    block = H @ V
    assert H.matvecs == 4
    torch.testing.assert_close(block[:, 2], H @ V[:, 2])
    assert H.matvecs == 5
    assert (H @ V[:, :1]).shape == (H.shape[0], 1)


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_follows_the_weights(operator):
    model, inputs, targets = BY_NAME["dense"].make()
    A = operator(Landscape(model, (inputs, targets)))
    v = torch.ones(A.shape[0]).double()
    before = A @ v
    with torch.no_grad():
        model[0].weight.mul_(1.5)
    after = A @ v
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, operator(Landscape(model, (inputs, targets))) @ v)
    model[0].weight.data.div_(1.5)
    torch.testing.assert_close(A @ v, before)


def test_shared_work_is_kept_within_the_memory_and_freed():
    land = land_of(batch_size=2)
    H = hessian(land)
    v = torch.ones(land.size).double()
    H @ v
    assert len(H._kept) == 4
    graphs = [weakref.ref(graph) for graph in H._kept]
    H @ v
    assert [ref() for ref in graphs] == H._kept
    H.release()
    assert all(ref() is None for ref in graphs)
    H @ v
    graphs = [weakref.ref(graph) for graph in H._kept]
    del H
    assert all(ref() is None for ref in graphs)


def test_part_of_the_work_is_kept_when_all_does_not_fit():
    tight = 4 * land_of().saved_bytes * 2 * 2 + 1
    model, inputs, targets = BY_NAME["dense"].make()
    land = Landscape(model, (inputs, targets), batch_size=2)
    land.memory = tight
    H, v = hessian(land), torch.ones(land.size).double()
    first = H @ v
    assert len(H._kept) == 2
    assert torch.equal(H @ v, first)
    torch.testing.assert_close(first, hessian(land_of()) @ v)


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        (torch.ones(3), "cannot multiply a tensor of shape"),
        (torch.ones(59, 0), "cannot multiply"),
        (torch.ones(59, 2, 2), "cannot multiply"),
        ([1.0] * 59, "multiplies torch tensors, not list"),
    ],
)
def test_wrong_vectors(vector, message):
    with pytest.raises(CurvboundError, match=message):
        hessian(land_of()) @ vector


def test_infinite_products_are_refused():
    H = hessian(land_of())
    with pytest.raises(CurvboundError, match="is not finite"):
        H @ torch.full((59,), float("inf"))


def test_once_differentiable_layers_are_explained():
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, g):
            return g * 1

    class Layer(torch.nn.Module):
        def forward(self, x):
            return Once.apply(x)

    model = torch.nn.Sequential(torch.nn.Linear(3, 4), Layer(), torch.nn.Linear(4, 2))
    land = Landscape(model, (torch.randn(5, 3), torch.arange(5) % 2))
    with pytest.raises(CurvboundError, match="cannot be differentiated twice"):
        hessian(land) @ torch.ones(land.size)


def test_representation_and_numpy():
    H = hessian(land_of())
    assert repr(H).startswith("Hessian 59 x 59 of Landscape(Sequential: 59 parameters")
    import numpy as np

    with pytest.raises(CurvboundError, match="is not an array"):
        np.asarray(H)
