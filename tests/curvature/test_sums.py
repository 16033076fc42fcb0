"""Symmetric sums against plain float64 products."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from curvbound.curvature.sums import SymmetricSum


@given(
    groups=st.integers(1, 3),
    size=st.sampled_from([1, 2, 127, 128, 129, 300]),
    count=st.integers(1, 20),
    alpha=st.sampled_from([1.0, 0.25]),
)
def test_sum_of_products(groups, size, count, alpha):
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(2, groups, size, count, dtype=torch.float64, generator=generator)
    total = SymmetricSum(groups, size, A)
    total.add(A[0], alpha)
    total.add(A[1], alpha)
    expected = alpha * (A[0] @ A[0].mT + A[1] @ A[1].mT)
    result = total.finish()
    assert torch.allclose(result, expected)
    assert torch.equal(result, result.mT)


def test_products_that_were_formed_elsewhere():
    total = SymmetricSum(1, 200, torch.zeros(1))
    product = torch.ones(200, 200)
    total.add_product(product, 10_000)
    total.add_product(product, 1)
    assert torch.equal(total.finish(), 2 * product.double()[None])


def test_the_error_of_single_precision_does_not_grow_with_the_data():
    total = SymmetricSum(1, 3, torch.zeros(1))
    A = torch.full((1, 3, 1000), 0.1)
    for _ in range(3000):
        total.add(A)
    expected = 3000 * 1000 * float(torch.tensor(0.1)) ** 2
    assert float((total.finish() / expected - 1).abs().max()) < 1e-6
