"""Hessian products against the dense Hessian over the whole grid."""

import pytest
import torch
from torch import nn

from curvbound.curvature.gauss_newton import gauss_newton
from curvbound.curvature.hessian import hessian
from curvbound.landscape import Landscape
from oracles import dense
from oracles.networks import BY_NAME, DTYPES, GRID, LOSSES
from oracles.reference import reference


def tolerance(dtype: torch.dtype) -> float:
    return 2e-5 if dtype == torch.float32 else 1e-12


def directions(size: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(size, 3, generator=torch.Generator().manual_seed(1)).to(dtype)


@pytest.mark.parametrize("case", GRID, ids=lambda case: case.name)
@pytest.mark.parametrize("loss", LOSSES)
def test_whole_network(case, loss):
    expected = reference("hessian", case.name, loss)
    for dtype in DTYPES:
        model, inputs, targets = case.make(loss, dtype)
        H = hessian(Landscape(model, (inputs, targets), loss=loss, batch_size=3))
        V = directions(len(expected), dtype)
        product = H @ V
        assert H.shape == expected.shape
        assert product.dtype == H.dtype == dtype
        wanted = expected @ V.double()
        assert (product - wanted).norm() <= tolerance(dtype) * wanted.norm()


@pytest.mark.parametrize("case", GRID, ids=lambda case: case.name)
def test_one_layer_at_a_time(case):
    model, inputs, targets = case.make()
    land = Landscape(model, (inputs, targets), batch_size=4)
    full = reference("hessian", case.name, "cross_entropy")
    for name, block in land.layers.items():
        V = directions(block.size, torch.float64)
        wanted = full[block.slice, block.slice] @ V
        product = hessian(land, layer=name) @ V
        assert (product - wanted).norm() <= 1e-12 * full.norm()


@pytest.mark.parametrize(
    ("case", "choice"),
    [
        ("dense", ["0.bias", "4"]),
        ("conv", ["2.bias"]),
        ("residual", ["norm", "stem.weight"]),
        ("attention", ["attention.in_proj_bias", "head.weight"]),
        ("tied", ["embedding", "mix.bias"]),
        ("transformer", ["encoder"]),
    ],
)
def test_any_subset(case, choice):
    model, inputs, targets = BY_NAME[case].make()
    land = Landscape(model, (inputs, targets))
    rows = dense.positions_of(model, choice)
    full = reference("hessian", case, "cross_entropy")
    block = hessian(land, layer=choice).dense()
    torch.testing.assert_close(block, full[rows][:, rows], rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("case", GRID, ids=lambda case: case.name)
def test_layer_block_is_the_gauss_newton_block_exactly_when_said_so(case):
    """T-9: true for FC, convolution, max-pool and eval-mode BatchNorm; false for tanh."""
    model, inputs, targets = case.make()
    land = Landscape(model, (inputs, targets))
    H = reference("hessian", case.name, "cross_entropy")
    G = reference("gauss_newton", case.name, "cross_entropy")
    claimed = [name for name in land.layers if land.block_is_gauss_newton(name)]
    for name in claimed:
        part = land.layers[name].slice
        torch.testing.assert_close(H[part, part], G[part, part], rtol=1e-12, atol=1e-14)
    if case.name in ("dense", "conv", "conv1d", "residual", "shared", "bag"):
        assert claimed == list(land.layers)
        assert torch.trace(H) == pytest.approx(float(torch.trace(G)), rel=1e-12)
        assert (H - G).norm() > 1e-3 * G.norm()
    if case.name == "twice":
        assert "again" not in claimed
    if case.name == "tanh":
        assert not claimed
        part = land.layers["0"].slice
        assert (H[part, part] - G[part, part]).norm() > 0.05 * G[part, part].norm()


def test_own_loss():
    model, inputs, targets = BY_NAME["dense"].make("mse")

    def quartic(z, y):
        return ((z - y) ** 4).mean()

    land = Landscape(model, (inputs, targets), loss=quartic, batch_size=2)
    expected = dense.hessian(model, inputs, targets, quartic)
    torch.testing.assert_close(hessian(land).dense(), expected, rtol=1e-10, atol=1e-12)


def test_in_place_activations():
    def build(inplace: bool) -> nn.Module:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return nn.Sequential(
                nn.Conv2d(1, 2, 3), nn.ReLU(inplace=inplace), nn.Flatten(), nn.Linear(8, 4),
                nn.ReLU(inplace=inplace), nn.Linear(4, 2),
            ).double()  # fmt: skip

    data = torch.randn(5, 1, 4, 4).double(), torch.arange(5) % 2
    matrices = [
        operator(Landscape(build(inplace), data)).dense()
        for operator in (hessian, gauss_newton)
        for inplace in (True, False)
    ]
    torch.testing.assert_close(matrices[0], matrices[1])
    torch.testing.assert_close(matrices[2], matrices[3])


def test_a_parameter_without_influence_has_zero_curvature():
    class Unused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.idle = nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, x):
            self.idle(x)
            return self.used(x)

    land = Landscape(Unused(), (torch.randn(4, 3), torch.arange(4) % 2))
    for operator in (hessian(land), gauss_newton(land)):
        assert torch.all((operator @ torch.ones(16))[8:] == 0)
    for operator in (hessian(land, layer="idle"), gauss_newton(land, layer="idle")):
        assert torch.all(operator @ torch.ones(8) == 0)
