"""Kronecker factors against brute force, and where they are exact."""

import copy

import pytest
import torch
from torch import nn

from curvbound.curvature.kronecker import kronecker
from curvbound.curvature.kronecker_block import KroneckerBlock
from curvbound.errors import CurvboundError
from curvbound.landscape import Landscape
from oracles.dense import gauss_newton
from oracles.factors import kronecker_factors
from oracles.networks import BY_NAME, CLASSES, DTYPES, GRID, LOSSES

# Layers of the grid that must have factors, and those that must not.
FACTORS = {
    "dense": "0 2 4",
    "no_bias": "0 2",
    "tanh": "0 2",
    "conv": "0 2 6",
    "conv1d": "0 2 5",
    "conv_same": "0 2 6",
    "residual": "stem conv head",
    "layer_norm": "0 3",
    "group_norm": "0 4",
    "attention": "head",
    "transformer": "encoder.linear1 encoder.linear2 head",
    "shared": "embed head",
    "twice": "first head",
    "bag": "head",
    "tied": "mix",
    "recurrent": "head",
    "bare": "",
}
SEED = 1


def close(a, b, dtype):
    tolerance = 1e-12 if dtype == torch.float64 else 2e-5
    return float((a.double() - b.double()).norm()) <= tolerance * float(b.double().norm())


@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("case", GRID, ids=lambda case: case.name)
def test_every_block_is_what_it_says(case, loss, dtype):
    model, X, y = case.make(loss, dtype, seed=SEED)
    K = kronecker(Landscape(model, (X, y), loss=loss, batch_size=3))
    G = gauss_newton(model, X, y, loss)
    assert K.shape == G.shape
    assert [name for name, block in K.items() if block.kind == "kronecker"] == FACTORS[
        case.name
    ].split()
    for name, block in K.items():
        true = G[K.slices[name], K.slices[name]]
        if block.kind == "kronecker":
            output, inputs = kronecker_factors(model, X, y, loss, name)
            assert close(block.output.reshape(output.shape), output, dtype)
            assert close(block.input.reshape(inputs.shape), inputs, dtype)
        elif block.kind == "dense":
            assert close(block.matrix, true, dtype)
        else:
            assert "diagonal" in block.note
            assert close(block.diagonal(), true.diagonal(), dtype)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", ["dense", "no_bias", "tanh"])
def test_exact_for_one_example(name, loss):
    model, X, y = BY_NAME[name].make(loss, seed=SEED)
    K = kronecker(Landscape(model, (X[:1], y[:1]), loss=loss))
    G = gauss_newton(model, X[:1], y[:1], loss)
    for layer, block in K.items():
        dense = block @ torch.eye(block.size, dtype=torch.float64)
        assert close(dense, G[K.slices[layer], K.slices[layer]], torch.float64)


def test_exact_for_a_deep_linear_network_with_squared_error():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 6), nn.Linear(6, 3)).double()
    X, y = torch.randn(9, 5).double(), torch.randn(9, 3).double()
    K = kronecker(Landscape(model, (X, y), loss="mse", batch_size=4))
    G = gauss_newton(model, X, y, "mse")
    for layer, block in K.items():
        dense = block @ torch.eye(block.size, dtype=torch.float64)
        assert close(dense, G[K.slices[layer], K.slices[layer]], torch.float64)


def test_last_layer_output_factor_is_singular_along_ones():
    model, X, y = BY_NAME["dense"].make(seed=SEED)
    E_M = kronecker(Landscape(model, (X, y)))["4"].output
    assert float((E_M @ torch.ones(CLASSES, dtype=E_M.dtype)).abs().max()) < 1e-15
    assert int(torch.linalg.matrix_rank(E_M)) == CLASSES - 1


def test_bias_block_is_the_output_factor():
    model, X, y = BY_NAME["dense"].make(seed=SEED)
    K = kronecker(Landscape(model, (X, y)))
    G = gauss_newton(model, X, y, "cross_entropy")
    where = K.slices["2"]
    bias = slice(where.stop - 4, where.stop)
    assert close(K["2"].output, G[bias, bias], torch.float64)


@pytest.mark.parametrize("case", GRID, ids=lambda case: case.name)
def test_batching_changes_only_rounding(case):
    model, X, y = case.make(seed=SEED)
    one = kronecker(Landscape(model, (X, y), batch_size=1))
    all_at_once = kronecker(Landscape(model, (X, y), batch_size=100))
    vector = torch.linspace(-1, 1, one.shape[0], dtype=torch.float64)
    assert close(one @ vector, all_at_once @ vector, torch.float64)


@pytest.mark.parametrize("name", ["residual", "attention", "tied", "recurrent", "bare"])
def test_leaves_the_model_alone(name):
    model, X, y = BY_NAME[name].make(seed=SEED)
    before = copy.deepcopy(model.state_dict())
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 3.0)
    kronecker(Landscape(model, (X, y)))
    for key, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[key])
    for parameter in model.parameters():
        assert parameter.requires_grad
        assert bool((parameter.grad == 3.0).all())
    for module in model.modules():
        assert not module._forward_hooks
        assert not module.training


def test_frozen_parameters_have_no_rows():
    model, X, y = BY_NAME["dense"].make(seed=SEED)
    whole = kronecker(Landscape(model, (X, y)))
    model[0].bias.requires_grad_(False)
    model[2].weight.requires_grad_(False)
    model[4].requires_grad_(False)
    K = kronecker(Landscape(model, (X, y)))
    assert list(K) == ["0", "2"]
    assert torch.allclose(K["0"].input, whole["0"].input[:-1, :-1])
    assert torch.equal(K["2"].input, torch.ones(1, 1, dtype=torch.float64))
    assert torch.allclose(K["2"].output, whole["2"].output)
    assert not model[4].weight.requires_grad


def test_whole_network_operations_agree_with_the_dense_matrix():
    model, X, y = BY_NAME["residual"].make(seed=SEED)
    K = kronecker(Landscape(model, (X, y)))
    P = K.shape[0]
    dense = K @ torch.eye(P, dtype=torch.float64)
    assert torch.allclose(dense, dense.T)
    assert torch.allclose(K.diagonal(), dense.diagonal())
    assert K.trace() == pytest.approx(float(dense.trace()))
    damped = dense + 0.1 * torch.eye(P, dtype=torch.float64)
    vectors = torch.randn(P, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(K.solve(vectors, 0.1), torch.linalg.solve(damped, vectors))
    assert torch.allclose(K.solve(vectors[:, 0], 0.1), torch.linalg.solve(damped, vectors[:, 0]))
    logdet = K.logdet(0.1)
    assert logdet.value == pytest.approx(float(torch.logdet(damped)))
    assert logdet.value == pytest.approx(logdet.damping_share + logdet.curvature_share)
    rotated = K.to_eigenbasis(vectors)
    assert torch.allclose(K.from_eigenbasis(rotated), vectors)
    assert torch.allclose(K.from_eigenbasis(K.eigenvalues().unsqueeze(1) * rotated), K @ vectors)
    assert K.psd
    assert bool((K.eigenvalues() >= 0).all())


def test_float32_factors_of_much_data_are_accurate():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).eval()
    X, y = torch.rand(20_000, 6), torch.randint(3, (20_000,))
    single = kronecker(Landscape(model, (X, y), batch_size=64))
    double = kronecker(Landscape(copy.deepcopy(model).double(), (X, y)))
    for name, block in single.items():
        assert isinstance(block, KroneckerBlock)
        assert block.input.dtype == torch.float32
        exact = double[name].input
        assert float((block.input - exact).abs().max() / exact.abs().max()) < 2e-6


def test_refuses_a_loss_without_known_output_hessian():
    model, X, y = BY_NAME["dense"].make(seed=SEED)
    land = Landscape(model, (X, y), loss=lambda z, t: nn.functional.cross_entropy(z, t))
    with pytest.raises(CurvboundError, match="output Hessian"):
        kronecker(land)


def test_refuses_vectors_of_the_wrong_size():
    model, X, y = BY_NAME["dense"].make(seed=SEED)
    K = kronecker(Landscape(model, (X, y)))
    with pytest.raises(CurvboundError, match="parameters, but the vector has shape"):
        K @ torch.ones(3)
    with pytest.raises(CurvboundError, match="must be positive"):
        K.logdet(0.0)


def test_says_what_it_did():
    model, X, y = BY_NAME["twice"].make(seed=SEED)
    text = repr(kronecker(Landscape(model, (X, y))))
    assert "again: exact diagonal only, because the parameters are used repeatedly" in text
