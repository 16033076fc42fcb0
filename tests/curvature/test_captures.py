"""What is read off at layers, and what is noticed not to be readable."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from curvbound.curvature.captures import capture, output_gradients, plan_captures
from curvbound.curvature.diagonal import diagonal
from curvbound.landscape import Landscape
from oracles.dense import gauss_newton
from oracles.networks import BY_NAME, CLASSES


def vectors(width, n=6):
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(n, width, dtype=torch.float64, generator=generator)
    return X, torch.randint(CLASSES, (n,), generator=generator)


def check_diagonal(model, X, y):
    """Whatever way a parameter takes, the result is exact."""
    land = Landscape(model, (X, y), batch_size=4)
    exact = gauss_newton(model, X, y, "cross_entropy").diagonal()
    assert torch.allclose(diagonal(land), exact, rtol=1e-10, atol=1e-14)
    return plan_captures(land)


class UsedElsewhere(nn.Module):
    """The weight of a dense layer is also used without calling the layer."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x):
        return self.head(torch.relu(functional.linear(self.layer(x), self.layer.weight)))


class DoesMore(nn.Linear):
    """A dense layer whose weight is not what is multiplied."""

    def forward(self, x):
        return functional.linear(x, self.weight.tanh(), self.bias)


class SequenceFirst(nn.Module):
    """Layers see (positions, examples, features)."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)
        self.norm = nn.LayerNorm(3)
        self.head = nn.Linear(3, CLASSES)

    def forward(self, x):
        inner = self.norm(torch.tanh(self.inner(x.transpose(0, 1))))
        return self.head(inner.mean(0))


class Flattened(nn.Module):
    """A dense layer sees examples and positions in one axis."""

    def __init__(self, swapped):
        super().__init__()
        self.inner = nn.Linear(4, 3)
        self.head = nn.Linear(3, CLASSES)
        self.swapped = swapped

    def forward(self, x):
        n, t = x.shape[:2]
        if self.swapped:
            rows = self.inner(x.transpose(0, 1).reshape(n * t, -1)).reshape(t, n, -1)
            return self.head(torch.tanh(rows).mean(0))
        return self.head(torch.tanh(self.inner(x.reshape(n * t, -1))).reshape(n, t, -1).mean(1))


def test_a_weight_used_outside_of_its_layer_is_noticed():
    torch.manual_seed(0)
    plan = check_diagonal(UsedElsewhere().double().eval(), *vectors(4))
    assert "used outside of its layer" in plan.general["layer.weight"]
    assert "head.weight" not in plan.general


def test_a_layer_that_does_more_is_noticed():
    torch.manual_seed(0)
    model = nn.Sequential(DoesMore(4, 5), nn.ReLU(), nn.Linear(5, CLASSES)).double().eval()
    plan = check_diagonal(model, *vectors(4))
    assert set(plan.general) == {"0.weight"}


def test_reparametrised_weights_take_the_general_way():
    torch.manual_seed(0)
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(4, 5))
    model = nn.Sequential(layer, nn.ReLU(), nn.Linear(5, CLASSES)).double().eval()
    plan = check_diagonal(model, *vectors(4))
    assert all("parametrizations" in name for name in plan.general)
    assert len(plan.general) == 2


@pytest.mark.parametrize("length", [5, 6])
def test_examples_along_another_axis_are_noticed(length):
    torch.manual_seed(0)
    X, y = vectors(4)
    X = X.unsqueeze(1) + torch.randn(len(X), length, 4).double()
    plan = check_diagonal(SequenceFirst().double().eval(), X, y)
    assert "first axis" in plan.general["inner.weight"]
    assert "first axis" in plan.general["norm.weight"]
    assert "head.weight" not in plan.general


@pytest.mark.parametrize("swapped", [False, True])
def test_examples_and_positions_in_one_axis(swapped):
    torch.manual_seed(0)
    X, y = vectors(4)
    X = X.unsqueeze(1) + torch.randn(len(X), 3, 4).double()
    plan = check_diagonal(Flattened(swapped).double().eval(), X, y)
    assert ("inner.weight" in plan.general) == swapped


def test_in_place_activations_do_no_harm():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(4, 5),
        nn.ReLU(inplace=True),
        nn.Linear(5, 5),
        nn.ReLU(inplace=True),
        nn.Linear(5, CLASSES),
    )
    assert not check_diagonal(model.double().eval(), *vectors(4)).general


def test_padding_tokens_are_not_trained():
    torch.manual_seed(0)
    model = BY_NAME["bag"].build()
    model.embedding.padding_idx = 1
    tokens = BY_NAME["bag"].inputs()
    model = model.double().eval()
    land = Landscape(model, (tokens, torch.arange(len(tokens)) % CLASSES))
    assert not plan_captures(land).general
    rows = diagonal(land)[:20].reshape(5, 4)
    assert bool((rows[1] == 0).all())
    assert bool((rows[[0, 2, 3, 4]] > 0).any())


def test_the_plan_is_made_once():
    model, X, y = BY_NAME["dense"].make()
    land = Landscape(model, (X, y))
    assert plan_captures(land) is plan_captures(land)


def test_gradients_stop_at_layer_outputs():
    model, X, y = BY_NAME["dense"].make()
    land = Landscape(model, (X, y))
    captured = capture(land, plan_captures(land).watched, X)
    [gradients] = output_gradients(captured, [torch.ones_like(captured.outputs)])
    assert [tuple(g.shape) for g in gradients] == [(7, 4), (7, 4), (7, 3)]
    assert torch.equal(gradients[-1], torch.ones(7, 3, dtype=torch.float64))
    assert all(parameter.grad is None for parameter in model.parameters())


class Breaks(nn.Module):
    """Fails after a few calls."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, CLASSES)
        self.broken = False

    def forward(self, x):
        x = self.layer(x)
        if self.broken:
            raise ValueError("broken")
        return x


def test_an_exception_leaves_nothing_behind():
    model = Breaks().double().eval()
    X, y = vectors(4)
    land = Landscape(model, (X, y))
    model.broken = True
    with pytest.raises(ValueError, match="broken"):
        diagonal(land)
    assert not model.layer._forward_hooks
    assert all(parameter.requires_grad for parameter in model.parameters())
