import pytest
import torch
from torch import nn

from curvbound import CurvboundError, Landscape, diagonal, gauss_newton, kronecker
from curvbound.certificates.shape import check_structure, layer_curvature
from curvbound.gaussians.layout import layouts_of


@pytest.fixture(scope="module")
def land():
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.ReLU(), nn.Linear(5, 3)).double()
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.copy_(torch.randn(tensor.shape, generator=generator))
    inputs = torch.randn(30, 4, generator=generator, dtype=torch.float64)
    return Landscape(model.eval(), (inputs, torch.arange(30) % 3))


def dense_block(found, layout):
    left = torch.eye(layout.rows).double() if found.left is None else found.left
    right = torch.eye(layout.columns).double() if found.right is None else found.right
    basis = torch.kron(left, right)
    values = found.values.expand(layout.rows, layout.columns).reshape(-1)
    return basis @ torch.diag(values) @ basis.T


def joined(land, flat):
    named = land.unflatten(flat)
    return {name: b.join(named) for name, b in layouts_of(land.parameters).items()}


def test_diagonal_and_isotropic_are_the_exact_gauss_newton(land):
    size = gauss_newton(land).shape[0]
    exact = torch.diag(gauss_newton(land) @ torch.eye(size, dtype=torch.float64))
    expected = joined(land, exact)
    for name, found in layer_curvature(land, "diagonal").items():
        torch.testing.assert_close(found.values, expected[name], rtol=1e-9, atol=1e-12)
    for name, found in layer_curvature(land, "isotropic").items():
        mean = expected[name].mean().reshape(1, 1)
        torch.testing.assert_close(found.values, mean, rtol=1e-9, atol=1e-12)


def test_kronecker_blocks_are_their_factors_and_the_rest_is_diagonal(land):
    found, factors = layer_curvature(land, "kronecker"), kronecker(land)
    for name in ("0", "3"):
        expected = torch.kron(factors[name].output, factors[name].input)
        block = dense_block(found[name], layouts_of(land.parameters)[name])
        torch.testing.assert_close(block, expected, rtol=1e-8, atol=1e-10)
    assert found["1"].left is None
    assert found["1"].right is None
    expected = joined(land, diagonal(land))["1"]
    torch.testing.assert_close(found["1"].values, expected, rtol=1e-9, atol=1e-12)


def test_neuron_blocks_are_the_second_moment_of_the_input(land):
    found = layer_curvature(land, "neuron-block")["0"]
    assert found.values.shape == (1, 5)
    block = found.right @ torch.diag(found.values[0]) @ found.right.T
    assert float(block[-1, -1]) == pytest.approx(1.0)  # the bias sees ones


def test_no_eigenvalue_is_negative(land):
    for structure in ("isotropic", "diagonal", "neuron-block", "kronecker"):
        for found in layer_curvature(land, structure).values():
            assert float(found.values.min()) >= 0.0


def test_unknown_structures_are_refused():
    assert check_structure("diagonal") == "diagonal"
    with pytest.raises(CurvboundError, match="no posterior 'full': choose one of isotropic"):
        check_structure("full")
