"""Patches of convolutions of every geometry against one-hot convolutions."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from curvbound.curvature.patches import columns, patch_sum, row_moment, row_moment_pays
from oracles.factors import patches


@st.composite
def convolutions(draw, dimensions, groups=True):
    group = draw(st.integers(1, 3)) if groups else 1
    kernel = draw(st.tuples(*[st.integers(1, 3)] * dimensions))
    padding = draw(st.tuples(*[st.integers(0, 2)] * dimensions))
    if all(size % 2 for size in kernel) and draw(st.booleans()):
        padding = "same"  # torch warns about even kernels
    one = (1,) * dimensions
    stride = one if padding == "same" else draw(st.tuples(*[st.integers(1, 3)] * dimensions))
    kind = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}[dimensions]
    return kind(
        group * draw(st.integers(1, 2)),
        group * draw(st.integers(1, 2)),
        kernel,
        stride=stride,
        padding=padding,
        dilation=draw(st.tuples(*[st.integers(1, 2)] * dimensions)),
        groups=group,
        padding_mode=draw(st.sampled_from(["zeros", "circular", "replicate", "reflect"])),
    ).double()


def images(conv, dimensions):
    generator = torch.Generator().manual_seed(0)
    sides = (7, 6, 5)[:dimensions]
    return torch.randn(3, conv.in_channels, *sides, dtype=torch.float64, generator=generator)


@given(conv=st.integers(1, 3).flatmap(convolutions))
def test_columns_are_what_the_kernel_sees(conv):
    x = images(conv, len(conv.kernel_size))
    expected = patches(conv, x)
    assert torch.equal(columns(conv, x), expected)
    assert torch.allclose(patch_sum(conv, x), expected.sum((0, 3)))


@given(conv=convolutions(2, groups=False))
def test_row_moment_equals_the_product_of_columns(conv):
    x = images(conv, 2)
    if conv.stride[0] > 1:
        return
    X = patches(conv, x)[:, 0]
    assert torch.allclose(row_moment(conv, x), torch.einsum("bnp,bkp->nk", X, X))


def test_row_moment_is_only_chosen_where_it_applies():
    x = torch.zeros(100, 4, 16, 16)
    size = torch.Size([14, 14])
    assert row_moment_pays(nn.Conv2d(4, 8, 3), x, size)
    assert not row_moment_pays(nn.Conv2d(4, 8, 3, stride=2), x, torch.Size([7, 7]))
    assert not row_moment_pays(nn.Conv2d(4, 8, 3, groups=2), x, size)
    assert not row_moment_pays(nn.Conv2d(4, 8, (1, 3)), x, torch.Size([16, 14]))
    assert not row_moment_pays(nn.Conv2d(4, 8, 3), x[:2], size)
    assert not row_moment_pays(nn.Conv1d(4, 8, 3), x[:, :, 0], torch.Size([14]))
