import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from curvbound.errors import CurvboundError
from curvbound.networks import build


def reference(w1, w2, inputs):
    matrix = np.array([[w1, w2], [-w2, w1]])
    hidden = inputs
    for layer in range(5):
        if layer:
            hidden = 1 / (1 + np.exp(-hidden))
        hidden = hidden @ matrix.T
    return hidden


def test_two_parameters_and_the_reference_values():
    model = build("Toy", (2,), 2).double()
    assert sum(p.numel() for p in model.parameters()) == 2
    inputs = np.random.default_rng(0).normal(size=(9, 2))
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[-5.25, 2.5]]))
        found = model(torch.from_numpy(inputs)).numpy()
    np.testing.assert_allclose(found, reference(-5.25, 2.5, inputs), rtol=1e-12)


def test_the_hessian_is_that_of_finite_differences():
    model = build("Toy", (2,), 2).double()
    inputs = torch.randn(20, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    targets = (inputs[:, 0] > 0).long()

    def loss(weight):
        logits = torch.func.functional_call(model, {"weight": weight}, (inputs,))
        return cross_entropy(logits, targets)

    at = torch.tensor([[3.0, -2.0]], dtype=torch.float64)
    hessian = torch.autograd.functional.hessian(loss, at).reshape(2, 2)
    gradient = torch.func.grad(loss)
    step = 1e-5
    for i in range(2):
        e = torch.zeros_like(at)
        e[0, i] = step
        column = (gradient(at + e) - gradient(at - e)).flatten() / (2 * step)
        torch.testing.assert_close(hessian[:, i], column, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("shape", "classes"), [((3,), 2), ((2,), 3), ((1, 2, 2), 2)])
def test_other_problems_are_refused(shape, classes):
    with pytest.raises(CurvboundError, match="Toy takes two features"):
        build("Toy", shape, classes)
