import pytest
import torch
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from curvbound.errors import CurvboundError
from curvbound.networks import build


@pytest.mark.parametrize(
    ("shape", "tokens", "features"),
    [
        ((1, 8, 8), 16, 4),
        ((1, 28, 28), 49, 16),
        ((3, 32, 32), 64, 48),
        ((2, 5, 7), 35, 2),
        ((2, 6, 10), 15 * 4, 2),
        ((11, 6), 11, 6),
    ],
)
def test_tokens_and_forward(shape, tokens, features):
    model = build("Attention-small", shape, 3)
    assert model.positions.weight.shape == (tokens, 64)
    assert model.embed.in_features == features
    assert model(torch.ones(2, *shape)).shape == (2, 3)


def test_patches_hold_neighbouring_pixels():
    model = build("Attention-small", (2, 8, 8), 3)
    images = torch.arange(128.0).reshape(1, 2, 8, 8)
    patches = model.patches(images)
    assert torch.equal(patches[0, 5], images[0, :, 2:4, 2:4].flatten())


def test_attention_agrees_with_torch():
    attention = build("Attention-small", (9, 4), 3).block1.attention.double()
    x = torch.randn(2, 9, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    q, k, v = (
        layer(x).reshape(2, 9, 4, 16).transpose(1, 2)
        for layer in (attention.query, attention.key, attention.value)
    )
    mixed = scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 9, 64)
    torch.testing.assert_close(attention(x), attention.output(mixed))


def test_second_derivatives_agree_with_finite_differences():
    model = build("Attention-small", (1, 8, 8), 3).double()
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(5, 1, 8, 8, dtype=torch.float64, generator=generator)
    targets = torch.tensor([0, 1, 2, 0, 1])
    parameters = list(model.parameters())
    direction = [torch.randn(p.shape, dtype=torch.float64, generator=generator) for p in parameters]

    def gradient(create_graph=False):
        loss = cross_entropy(model(images), targets)
        return torch.autograd.grad(loss, parameters, create_graph=create_graph)

    def moved_gradient(step):
        with torch.no_grad():
            for p, d in zip(parameters, direction, strict=True):
                p.add_(d, alpha=step)
        found = gradient()
        with torch.no_grad():
            for p, d in zip(parameters, direction, strict=True):
                p.sub_(d, alpha=step)
        return found

    first = gradient(create_graph=True)
    product = torch.autograd.grad(first, parameters, grad_outputs=direction)
    ahead, behind = moved_gradient(1e-6), moved_gradient(-1e-6)
    flat = torch.cat([p.flatten() for p in product])
    finite = torch.cat([(a - b).flatten() / 2e-6 for a, b in zip(ahead, behind, strict=True)])
    assert torch.linalg.norm(flat - finite) < 1e-6 * torch.linalg.norm(finite)


def test_vectors_are_refused():
    with pytest.raises(CurvboundError, match=r"takes images .* or sequences"):
        build("Attention-small", (64,), 3)
