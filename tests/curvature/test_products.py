import numpy as np
import pytest
import torch

from curvbound.curvature.products import Products, as_dense, sample_signs, unit_blocks
from curvbound.errors import CurvboundError
from oracles.spectra import CountingOperator, with_spectrum


def test_counts_vectors_and_keeps_shapes():
    products = Products(CountingOperator(torch.arange(4.0)))
    assert products(torch.ones(4, 1)).shape == (4, 1)
    assert products(torch.ones(4, 3)).shape == (4, 3)
    assert products.matvecs == products.operator.matvecs == 4


def test_blocks_of_unit_vectors_give_the_matrix():
    matrix = with_spectrum(torch.linspace(0, 1, 70))
    products = Products(CountingOperator(matrix))
    assert [first for first, _ in unit_blocks(products)] == [0, 32, 64]
    assert torch.allclose(as_dense(products), matrix, atol=1e-15)


def test_outside_matrices_are_accepted():
    for matrix in (np.eye(3), torch.eye(3)):
        assert torch.equal(as_dense(Products(matrix)), torch.eye(3, dtype=torch.float64))


def test_signs_do_not_depend_on_the_block():
    products = Products(CountingOperator(torch.ones(101)))
    together = sample_signs(products, torch.Generator().manual_seed(3), 5)
    generator = torch.Generator().manual_seed(3)
    apart = torch.cat([sample_signs(products, generator, n) for n in (2, 3)], dim=1)
    assert torch.equal(together, apart)
    assert set(together.flatten().tolist()) == {-1.0, 1.0}


def test_blocks_shrink_with_the_dimension():
    huge = CountingOperator(torch.zeros(1).expand(40_000_000))
    assert Products(huge).block == 1


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 0)])
def test_operators_that_are_not_square_are_refused(shape):
    class Odd(CountingOperator):
        def __init__(self):
            super().__init__(torch.ones(2))
            self.shape = shape

    with pytest.raises(CurvboundError, match="must be square"):
        Products(Odd())


def test_half_precision_is_refused():
    with pytest.raises(CurvboundError, match=r"works in torch\.float16"):
        Products(CountingOperator(torch.ones(2, dtype=torch.float16)))


def test_products_that_make_no_sense_are_refused():
    with pytest.raises(CurvboundError, match="NaN or infinity"):
        Products(CountingOperator(torch.tensor([1.0, torch.nan])))(torch.ones(2, 1))

    class Truncating(CountingOperator):
        def __matmul__(self, vectors):
            return super().__matmul__(vectors)[:-1]

    with pytest.raises(CurvboundError, match="same shape"):
        Products(Truncating(torch.ones(3)))(torch.ones(3, 2))


def test_dense_form_of_a_non_symmetric_matrix_is_refused():
    with pytest.raises(CurvboundError, match="not symmetric"):
        as_dense(Products(torch.tensor([[1.0, 2.0], [0.0, 1.0]])))
