"""Sites are found however a layer is written, and keep two uses of a weight apart."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from curvbound.curvature.conv import Geometry, Switch
from curvbound.curvature.sites import Dense, SiteRecorder


def record(function, leaves):
    with SiteRecorder(leaves, Switch()) as recorder:
        output = function()
    return output, recorder


W = torch.randn(4, 3).requires_grad_()
B = torch.randn(4).requires_grad_()
X = torch.randn(5, 3)


@pytest.mark.parametrize(
    "function",
    [
        lambda: functional.linear(X, W, B),
        lambda: functional.linear(X, W, bias=B),
        lambda: functional.linear(input=X, weight=W, bias=B),
    ],
)
def test_dense_calls(function):
    output, recorder = record(function, {"w": W, "b": B})
    torch.testing.assert_close(output, functional.linear(X, W, B))
    (site,) = recorder.sites
    assert (site.weight, site.bias, site.map) == ("w", "b", Dense())
    assert site.inputs is X
    assert set(recorder.aliases) == {"w", "b"}


def test_convolution_calls():
    K = torch.randn(4, 1, 3, 3).requires_grad_()
    images = torch.randn(2, 2, 5, 5)
    output, recorder = record(
        lambda: functional.conv2d(images, K, stride=2, padding=(1, 0), groups=2), {"k": K}
    )
    torch.testing.assert_close(
        output, functional.conv2d(images, K, stride=2, padding=(1, 0), groups=2)
    )
    (site,) = recorder.sites
    assert site.map == Geometry((2, 2), (1, 0), (1, 1), 2)
    assert site.bias is None


def test_what_is_no_site():
    _, recorder = record(lambda: functional.linear(X, W), {})
    assert not recorder.sites
    K = torch.randn(4, 2, 3, 3).requires_grad_()
    _, recorder = record(
        lambda: functional.conv2d(torch.randn(1, 2, 5, 5), K, padding="same"), {"k": K}
    )
    assert not recorder.sites
    _, recorder = record(lambda: functional.conv2d(torch.randn(2, 5, 5), K), {"k": K})
    assert not recorder.sites


def test_a_tied_weight_keeps_its_two_roles_apart():
    leaf = torch.randn(3, 3).requires_grad_()
    output, recorder = record(lambda: functional.linear(leaf * 2, leaf).sum(), {"w": leaf})
    both = torch.autograd.grad(output, [leaf, recorder.aliases["w"]])
    other = leaf.detach().requires_grad_()
    (total,) = torch.autograd.grad(functional.linear(other * 2, other).sum(), other)
    torch.testing.assert_close(both[0] + both[1], total)


def test_frozen_bias_is_a_constant():
    layer = nn.Linear(3, 4)
    output, recorder = record(
        lambda: functional.linear(X, layer.weight, layer.bias.detach()), {"w": layer.weight}
    )
    assert recorder.sites[0].bias is None
    torch.testing.assert_close(output, layer(X))


def test_in_place_changes_do_not_move_the_site():
    def function():
        y = functional.linear(X, W, B)
        y.relu_()
        return y

    output, recorder = record(function, {"w": W, "b": B})
    (delta,) = torch.autograd.grad(output.sum(), recorder.sites[0].output)
    torch.testing.assert_close(delta, (functional.linear(X, W, B) > 0).float())
