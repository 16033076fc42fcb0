"""Losses against torch's own values and automatic output derivatives."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd.functional import hessian, jacobian

from curvbound.errors import CurvboundError
from curvbound.losses import CrossEntropy, OutputLoss, resolve_loss

SHAPES = {
    "cross_entropy": [((5, 4), (5,)), ((3, 4, 2), (3, 2)), ((3, 2, 4), (3, 2)), ((4, 1), (4,))],
    "mse": [((5, 4), (5, 4)), ((3, 2, 2), (3, 2, 2)), ((5,), (5,))],
    "binary_cross_entropy": [((5, 3), (5, 3)), ((5,), (5,)), ((5, 1), (5,))],
}
CASES = [(name, *shapes) for name, rows in SHAPES.items() for shapes in rows]


def draw(name: str, outputs: tuple[int, ...], targets: tuple[int, ...], seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(outputs, generator=generator, dtype=torch.float64) * 2
    if name == "cross_entropy":
        dimension = 1 if outputs[:1] + outputs[2:] == targets else -1
        y = torch.randint(outputs[dimension], targets, generator=generator)
    elif name == "mse":
        y = torch.randn(targets, generator=generator, dtype=torch.float64)
    else:
        y = torch.randint(2, targets, generator=generator)
    return z, y


def torch_mean(name: str, z: Tensor, y: Tensor) -> Tensor:
    if name == "cross_entropy":
        fits = z.shape[:1] + z.shape[2:] == y.shape
        return nn.CrossEntropyLoss()(z if fits else z.movedim(-1, 1), y)
    if name == "mse":
        return nn.MSELoss()(z, y)
    return nn.BCEWithLogitsLoss()(z, y.to(z.dtype).reshape(z.shape))


@pytest.mark.parametrize(("name", "outputs", "targets"), CASES)
def test_value_gradient_and_hessian_are_torchs(name, outputs, targets):
    z, y = draw(name, outputs, targets)
    loss = resolve_loss(name)
    assert isinstance(loss, OutputLoss)
    count = loss.count(y)

    def function(flat: Tensor) -> Tensor:
        return torch_mean(name, flat.view_as(z), y) * count

    flat = z.reshape(-1)
    torch.testing.assert_close(loss.mean(z, y), torch_mean(name, z, y))
    torch.testing.assert_close(loss.sum(z, y), function(flat))
    torch.testing.assert_close(loss.gradient(z, y).reshape(-1), jacobian(function, flat))
    A = hessian(function, flat)
    v = torch.randn_like(z)
    torch.testing.assert_close(loss.hessian_product(z, y, v).reshape(-1), A @ v.reshape(-1))


@pytest.mark.parametrize(("name", "outputs", "targets"), CASES)
def test_factor_is_a_square_root_example_by_example(name, outputs, targets):
    z, y = draw(name, outputs, targets)
    loss = resolve_loss(name)
    A = hessian(lambda flat: loss.sum(flat.view_as(z), y), z.reshape(-1))
    S = loss.hessian_factor(z, y)
    assert S.shape[1:] == z.shape
    S = S.reshape(len(S), len(z), z[0].numel())
    per_example = torch.einsum("kni,knj->nij", S, S)
    torch.testing.assert_close(torch.block_diag(*per_example), A)


@pytest.mark.parametrize(("name", "outputs", "targets"), CASES)
def test_outer_product_sums_over_labels(name, outputs, targets):
    z, y = draw(name, outputs, targets)
    loss = resolve_loss(name)
    g = loss.gradient(z, y)
    v = torch.randn_like(z)
    if name == "cross_entropy":
        dimension = 1 if z.shape[:1] + z.shape[2:] == y.shape else -1
        expected = g * (g * v).sum(dimension, keepdim=True)
    elif name == "mse":
        inner = (g * v).reshape(len(g), -1).sum(1)
        expected = torch.einsum("n...,n->n...", g, inner)
    else:
        expected = g * g * v
    torch.testing.assert_close(loss.outer_product(z, y, v), expected)


@given(st.integers(2, 12), st.integers(0, 10_000), st.floats(0.01, 30))
def test_softmax_hessian_identities(classes, seed, scale):
    """T-8: A = Q^T Q with Q = diag(sqrt p)(I - 1 p^T), A 1 = 0, rank at most C - 1."""
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(1, classes, generator=generator, dtype=torch.float64) * scale
    loss, y = CrossEntropy(), torch.zeros(1, dtype=torch.int64)
    p = z.softmax(1)[0]
    A = torch.diag(p) - torch.outer(p, p)
    Q = torch.diag(p.sqrt()) @ (torch.eye(classes, dtype=p.dtype) - p.expand(classes, classes))
    torch.testing.assert_close(Q.T @ Q, A)
    S = loss.hessian_factor(z, y)[:, 0]
    assert len(S) == classes - 1
    torch.testing.assert_close(S.T @ S, A, rtol=1e-10, atol=1e-15)
    assert torch.all(loss.hessian_product(z, y, torch.ones_like(z)).abs() < 1e-15)
    mean = sum(p[c] * loss.gradient(z, torch.tensor([c])) for c in range(classes))
    assert torch.all(mean.abs() < 1e-14)


def test_ignored_labels_take_no_part():
    z, y = draw("cross_entropy", (3, 2, 4), (3, 2))
    y[1, 0] = -100
    loss = CrossEntropy()
    assert loss.count(y) == 5
    torch.testing.assert_close(loss.mean(z, y), nn.functional.cross_entropy(z.movedim(-1, 1), y))
    for result in (
        loss.gradient(z, y),
        loss.hessian_product(z, y, torch.ones_like(z)),
        loss.outer_product(z, y, torch.ones_like(z)),
    ):
        assert torch.all(result[1, 0] == 0)
    assert torch.all(loss.hessian_factor(z, y)[:, 1, 0] == 0)
    assert loss.sample(z, y, torch.rand(y.shape, dtype=torch.float64))[1, 0] == -100


@pytest.mark.parametrize("name", ["cross_entropy", "mse", "binary_cross_entropy"])
def test_samples_follow_the_model(name):
    """The covariance of sampled-label gradients is the output Hessian."""
    z, _ = draw(name, (1, 3), (1,) if name == "cross_entropy" else (1, 3), seed=3)
    draws = 40_000
    z = z.expand(draws, 3)
    y = torch.zeros(draws, dtype=torch.int64) if name == "cross_entropy" else torch.zeros(draws, 3)
    loss = resolve_loss(name)
    u = torch.rand(y.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    drawn = loss.sample(z, y, u)
    assert drawn.shape == y.shape
    g = loss.gradient(z, drawn)
    A = torch.stack([loss.hessian_product(z[:1], y[:1], e[None])[0] for e in torch.eye(3).double()])
    covariance = g.T @ g / draws
    if name == "binary_cross_entropy":
        covariance = torch.diag(covariance.diagonal())
    torch.testing.assert_close(covariance, A, rtol=0.05, atol=0.02)


def test_unknown_loss():
    with pytest.raises(CurvboundError, match="Unknown loss 'hinge'"):
        resolve_loss("hinge")
    with pytest.raises(CurvboundError, match="must be a name or a function"):
        resolve_loss(3)


@pytest.mark.parametrize(
    ("name", "outputs", "targets", "message"),
    [
        ("cross_entropy", torch.zeros(2, 3), torch.tensor([0, 3]), "from 0 to 3"),
        ("cross_entropy", torch.zeros(2, 3), torch.tensor([-1, 2]), "from -1 to 2"),
        ("cross_entropy", torch.zeros(2, 3), torch.tensor([0.0, 1.0]), "integer class labels"),
        ("cross_entropy", torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.int64), "do not fit"),
        ("mse", torch.zeros(2, 3), torch.zeros(2), "outputs' shape"),
        ("binary_cross_entropy", torch.zeros(2, 1), torch.tensor([0, 2]), r"in \[0, 1\]"),
        ("binary_cross_entropy", torch.zeros(2, 2), torch.tensor([0, 1]), "outputs' shape"),
    ],
)
def test_wrong_targets(name, outputs, targets, message):
    with pytest.raises(CurvboundError, match=message):
        resolve_loss(name).check(outputs, targets)


def test_labels_of_other_batches_are_checked_too():
    loss = CrossEntropy()
    with pytest.raises(CurvboundError, match="from 7 to 7"):
        loss.check(torch.zeros(2, 3), torch.tensor([0, 1]), torch.tensor([7]))
