"""Neuron blocks of 000 against explicit sums."""

import pytest
import torch
from torch import nn

from curvbound.curvature.neuron_blocks import neuron_blocks
from curvbound.errors import CurvboundError
from curvbound.landscape import Landscape
from oracles.dense import double
from oracles.factors import inputs_and_jacobian, patches
from oracles.networks import BY_NAME, DTYPES, GRID

SUPPORTED = [case for case in GRID if case.name not in
             ("attention", "transformer", "tied", "recurrent", "bare")]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
@pytest.mark.parametrize("case", SUPPORTED, ids=lambda case: case.name)
def test_dense_and_convolution_layers(case, dtype):
    model, X, y = case.make(dtype=dtype, seed=1)
    blocks = neuron_blocks(Landscape(model, (X, y), batch_size=3))
    for name, block in blocks.items():
        module = double(model).get_submodule(name)
        if not isinstance(module, nn.Linear | nn.Conv1d | nn.Conv2d) or name == "again":
            continue
        Z = patches(module, inputs_and_jacobian(model, X, name)[0])
        if module.bias is not None:
            Z = torch.cat([Z, torch.ones_like(Z[:, :, :1])], 2)
        H = torch.einsum("bgnp,bgkp->gnk", Z, Z) / len(X)
        assert torch.allclose(block.input.reshape(H.shape).double(), H, rtol=1e-5, atol=1e-6)
        height = module.weight.shape[0] // len(H)
        assert torch.equal(
            block.output.reshape(-1, height, height)[0], torch.eye(height, dtype=dtype)
        )


def test_every_neuron_has_the_block():
    model, X, y = BY_NAME["dense"].make()
    block = neuron_blocks(Landscape(model, (X, y)))["0"]
    dense = block @ torch.eye(block.size, dtype=torch.float64)
    # Rows of neuron 1 in the flat order: its five weights, then its bias.
    rows = torch.tensor([5, 6, 7, 8, 9, 21])
    assert torch.allclose(dense[rows][:, rows], block.input)
    others = torch.tensor([i for i in range(24) if i not in rows.tolist()])
    assert bool((dense[rows][:, others] == 0).all())


def test_half_the_hessian_of_the_squared_output_change():
    # 000-E12: the Hessian of (1/N) sum |W z - z'|^2 has the block (2/N) sum z z^T.
    model, X, y = BY_NAME["dense"].make()
    H = neuron_blocks(Landscape(model, (X, y)))["0"].input

    def change(row):
        return (X @ row).square().mean()

    hessian = torch.autograd.functional.hessian(change, torch.zeros(5, dtype=torch.float64))
    assert torch.allclose(hessian, 2 * H[:5, :5])


def test_normalisation_and_embedding_layers():
    model, X, y = BY_NAME["residual"].make()
    block = neuron_blocks(Landscape(model, (X, y)))["norm"]
    stem = model.stem(X)
    z = nn.functional.batch_norm(stem, model.norm.running_mean, model.norm.running_var)
    first = torch.stack([z, torch.ones_like(z)], 2)
    expected = torch.einsum("bgnij,bgkij->gnk", first, first) / len(X)
    assert torch.allclose(block.input, expected.detach())

    model, X, y = BY_NAME["bag"].make()
    block = neuron_blocks(Landscape(model, (X, y)))["embedding"]
    counts = torch.bincount(X.reshape(-1), minlength=5).double() / len(X)
    assert torch.allclose(block.diagonal().reshape(5, 4), counts.unsqueeze(1).expand(5, 4))


def test_a_module_that_runs_twice_sums_over_its_calls():
    model, X, y = BY_NAME["twice"].make(seed=1)
    block = neuron_blocks(Landscape(model, (X, y)))["again"]
    first = model.first(X).relu()
    Z = torch.cat([first, model.again(first).relu()])
    assert torch.allclose(block.input[:4, :4], (Z.T @ Z).detach() / len(X))
    assert torch.allclose(block.input[4, 4], torch.tensor(2.0).double())


@pytest.mark.parametrize("name", ["attention", "tied", "recurrent", "bare"])
def test_refuses_what_is_not_a_weight_times_an_input(name):
    model, X, y = BY_NAME[name].make()
    with pytest.raises(CurvboundError, match="has no neuron blocks"):
        neuron_blocks(Landscape(model, (X, y)))


def test_the_rest_of_a_network_can_be_chosen():
    model, X, y = BY_NAME["attention"].make()
    blocks = neuron_blocks(Landscape(model, (X, y), parameters="head"))
    assert list(blocks) == ["head"]
