"""Per-example gradients read off at layers against autograd."""

import pytest
import torch
from torch import nn

from curvbound.curvature.uses import make_use

B = 3
LAYERS = {
    "dense": (lambda: nn.Linear(4, 2), (B, 4)),
    "dense on sequences": (lambda: nn.Linear(4, 2), (B, 5, 4)),
    "convolution": (lambda: nn.Conv2d(2, 4, 3, stride=2, padding=1, groups=2), (B, 2, 6, 5)),
    "convolution 1d": (lambda: nn.Conv1d(2, 3, 2, dilation=2), (B, 2, 6)),
    "convolution 3d": (lambda: nn.Conv3d(1, 2, 2), (B, 1, 3, 3, 3)),
    "pointwise": (lambda: nn.Conv2d(2, 3, 1), (B, 2, 3, 3)),
    "batch norm": (lambda: nn.BatchNorm2d(2).eval(), (B, 2, 3, 3)),
    "batch norm on vectors": (lambda: nn.BatchNorm1d(2).eval(), (B, 2)),
    "layer norm": (lambda: nn.LayerNorm(4), (B, 5, 4)),
    "layer norm of images": (lambda: nn.LayerNorm((3, 2)), (B, 2, 3, 2)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (B, 4, 3)),
    "embedding": (lambda: nn.Embedding(5, 3), (B, 4)),
    "embedding with padding": (lambda: nn.Embedding(5, 3, padding_idx=0), (B, 4)),
}


@pytest.fixture(params=LAYERS)
def call(request):
    make, shape = LAYERS[request.param]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = make().double()
        is_embedding = isinstance(module, nn.Embedding)
        x = torch.randint(5, shape) if is_embedding else torch.randn(shape).double()
        for parameter in module.parameters():
            nn.init.normal_(parameter)
        output = module(x)
        gs = [torch.randn_like(output) for _ in range(2)]
    roles = {name: f"layer.{name}" for name, _ in module.named_parameters()}
    use = make_use(module, roles, x, output, B)
    return module, x, gs, use


def autograd_gradient(module, x, g, role, i):
    output = module(x)
    keep = torch.zeros_like(g)
    keep[i] = g[i]
    return torch.autograd.grad(output, getattr(module, role), keep)[0]


def test_gradients_of_single_examples(call):
    module, x, gs, use = call
    for role in use.roles:
        true = torch.stack([autograd_gradient(module, x, gs[0], role, i) for i in range(B)])
        assert torch.allclose(use.gradient(role, gs[0]), true)
        assert torch.allclose(use.gradient(role, gs[0], slice(1, 2)), true[1:2])


def test_squares_over_examples_and_cotangents(call):
    module, x, gs, use = call
    for role in use.roles:
        true = sum(autograd_gradient(module, x, g, role, i).square() for g in gs for i in range(B))
        assert torch.allclose(use.squares(role, gs), true)


def test_calls_without_examples_in_front_are_not_described():
    linear, conv = nn.Linear(4, 2), nn.Conv2d(1, 1, 2)
    assert make_use(linear, {}, torch.ones(5, 4), torch.ones(5, 2), 3) is None
    assert make_use(conv, {}, torch.ones(6, 1, 2, 2), torch.ones(6, 1, 1, 1), 3) is None
    assert make_use(conv, {}, torch.ones(1, 2, 2), torch.ones(1, 1, 1), 1) is None
