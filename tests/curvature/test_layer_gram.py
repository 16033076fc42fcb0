"""The two ways to the Gram matrix of a layer agree, and the cheaper one is taken."""

import pytest
import torch
from torch import nn

from curvbound.curvature import layer_gram
from curvbound.curvature.layer_gram import call_gram, rows_gram
from curvbound.curvature.uses import make_use

ROLES = {"weight": "w", "bias": "b"}
LAYERS = {
    "dense": (lambda: nn.Linear(4, 3), (5, 4)),
    "sequence": (lambda: nn.Linear(4, 3), (5, 6, 4)),
    "convolution": (lambda: nn.Conv2d(2, 3, 2), (5, 2, 4, 4)),
    "groups": (lambda: nn.Conv1d(4, 6, 2, groups=2), (5, 4, 5)),
}


@pytest.mark.parametrize("roles", [["weight", "bias"], ["weight"], ["bias"]], ids=str)
@pytest.mark.parametrize("pairs", [False, True], ids=["explicit", "pairs"])
@pytest.mark.parametrize("name", LAYERS)
def test_both_ways(name, pairs, roles, monkeypatch):
    monkeypatch.setattr(layer_gram, "_pairs_are_cheaper", lambda *_: pairs)
    monkeypatch.setattr(layer_gram, "PAIRS", 300)  # several blocks
    monkeypatch.setattr(layer_gram, "COLUMNS", 7)
    torch.manual_seed(0)
    make, shape = LAYERS[name]
    module, x = make(), torch.randn(shape)
    output = module(x).detach()
    g = torch.randn_like(output)
    use = make_use(module, ROLES, x, output, 5)
    J = torch.cat([use.gradient(role, g).flatten(1) for role in roles], 1).double()
    assert torch.allclose(call_gram(use, roles, g), J @ J.T, rtol=1e-5, atol=1e-5)


def test_choice_by_multiplications():
    def cheaper(module, shape):
        x = torch.zeros(shape)
        use = make_use(module, ROLES, x, module(x).detach(), len(x))
        return layer_gram._pairs_are_cheaper(use, ["weight", "bias"])

    assert cheaper(nn.Linear(784, 200), (100, 784))
    assert not cheaper(nn.Conv2d(3, 6, 5), (100, 3, 32, 32))
    assert cheaper(nn.Conv2d(512, 512, 3, padding=1), (10, 512, 2, 2))


def test_products_are_in_double_precision():
    # Gradients that differ in the last bits of single precision stay independent.
    rows = torch.tensor([[1.0, 0.0], [1.0, 1e-6]])
    assert float(torch.linalg.det(rows_gram(rows))) == pytest.approx(1e-12, rel=1e-3)
