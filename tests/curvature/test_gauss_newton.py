"""Gauss-Newton products against J^T A J over the whole grid."""

import pytest
import torch

from curvbound.curvature.gauss_newton import gauss_newton
from curvbound.errors import CurvboundError
from curvbound.landscape import Landscape
from oracles import dense
from oracles.networks import BY_NAME, DTYPES, GRID, LOSSES
from oracles.reference import reference


@pytest.mark.parametrize("case", GRID, ids=lambda case: case.name)
@pytest.mark.parametrize("loss", LOSSES)
def test_whole_network_and_layers(case, loss):
    expected = reference("gauss_newton", case.name, loss)
    for dtype in DTYPES:
        model, inputs, targets = case.make(loss, dtype)
        land = Landscape(model, (inputs, targets), loss=loss, batch_size=3)
        G = gauss_newton(land)
        V = torch.randn(len(expected), 3, generator=torch.Generator().manual_seed(1)).to(dtype)
        product = G @ V
        assert product.dtype == dtype
        assert G.psd
        wanted = expected @ V.double()
        limit = 2e-5 if dtype == torch.float32 else 1e-12
        assert (product - wanted).norm() <= limit * wanted.norm()
    name, block = list(land.layers.items())[-1]
    part = block.slice
    inside = gauss_newton(land, layer=name) @ V[part]
    torch.testing.assert_close(inside, expected[part, part] @ V[part], rtol=1e-10, atol=1e-12)


def test_stacked_factors_of_dense_layers():
    """T-10, 001 eq. 28 corrected: F_x = [(Q G) kron x^T, Q G, ...] gives E F^T F = G."""
    model, inputs, targets = BY_NAME["dense"].make()
    expected = reference("gauss_newton", "dense", "cross_entropy")
    total = torch.zeros_like(expected)
    for x in inputs:
        activations = [x]
        for layer in model:
            activations.append(layer(activations[-1]).detach())
        p = activations[-1].softmax(0)
        Q = torch.diag(p.sqrt()) @ (torch.eye(3).double() - p.expand(3, 3))
        to_output = torch.eye(3).double()
        blocks = []
        for index in (4, 2, 0):
            QG = Q @ to_output
            blocks = [torch.kron(QG, activations[index].reshape(1, -1)), QG, *blocks]
            if index:
                mask = (activations[index] > 0).double()
                to_output = to_output @ model[index].weight.detach() * mask
        F = torch.cat(blocks, 1)
        total += F.T @ F / len(inputs)
    torch.testing.assert_close(total, expected, rtol=1e-12, atol=1e-15)
    land = Landscape(model, (inputs, targets))
    torch.testing.assert_close(gauss_newton(land).dense(), total, rtol=1e-12, atol=1e-15)


def test_convolution_as_unfolded_dense_layer():
    """T-10, 001 eq. 31: the weight Jacobian of a convolution from unfolded inputs is exact."""
    model, inputs, _ = BY_NAME["residual"].make()
    J = dense.jacobian(model, inputs)[..., dense.positions_of(model, ["conv.weight"])]
    relu = torch.nn.functional.relu
    x = relu(model.norm(model.stem(inputs))).detach()
    s = model.conv(x).detach().requires_grad_()
    z = model.head(relu(x + s).mean((2, 3)))
    back = torch.stack(
        [torch.autograd.grad(z[:, c].sum(), s, retain_graph=True)[0] for c in range(3)]
    )
    unfolded = torch.nn.functional.unfold(x, 3, padding=1)
    expected = torch.einsum("cnmp,nkp->ncmk", back.flatten(3), unfolded).flatten(2)
    torch.testing.assert_close(J, expected, rtol=1e-12, atol=1e-15)


def test_needs_a_known_output_hessian():
    model, inputs, targets = BY_NAME["dense"].make("mse")
    land = Landscape(model, (inputs, targets), loss=torch.nn.L1Loss())
    with pytest.raises(CurvboundError, match="output Hessian of the loss 'L1Loss' is not known"):
        gauss_newton(land)
