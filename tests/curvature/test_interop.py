"""Operators of others here, and ours there."""

import numpy as np
import pytest
import scipy.sparse
import torch
from scipy.sparse.linalg import LinearOperator, aslinearoperator, eigsh

from curvbound.curvature.gauss_newton import gauss_newton
from curvbound.curvature.interop import OutsideOperator, as_operator, to_scipy
from curvbound.errors import CurvboundError
from curvbound.landscape import Landscape
from oracles.networks import BY_NAME
from oracles.reference import reference

M = np.diag(np.arange(1.0, 6.0)) + 0.1


class Foreign:
    """The least an outside library offers."""

    shape = (5, 5)
    dtype = torch.float64
    device = torch.device("cpu")

    def __matmul__(self, v):
        return torch.from_numpy(M) @ v


@pytest.mark.parametrize(
    "matrix",
    [M, scipy.sparse.csr_matrix(M), aslinearoperator(M), torch.from_numpy(M), Foreign()],
    ids=["numpy", "sparse", "linear operator", "tensor", "foreign"],
)
def test_outside_operators(matrix):
    A = as_operator(matrix, psd=True)
    assert A.shape == (5, 5)
    assert A.psd
    assert A.dtype == torch.float64
    V = torch.randn(5, 3, dtype=torch.float64)
    torch.testing.assert_close(A @ V, torch.from_numpy(M) @ V)
    torch.testing.assert_close(A @ V[:, 0], torch.from_numpy(M) @ V[:, 0])
    assert A.matvecs == 4


def test_precision_follows_the_matrix():
    assert as_operator(M.astype(np.float32)).dtype == torch.float32
    assert (as_operator(M.astype(np.float32)) @ torch.ones(5)).dtype == torch.float32


def test_ours_pass_unchanged_and_go_to_scipy():
    model, inputs, targets = BY_NAME["dense"].make()
    G = gauss_newton(Landscape(model, (inputs, targets)))
    assert as_operator(G) is G
    there = G.to_scipy()
    assert isinstance(there, LinearOperator)
    assert there.dtype == np.float64
    expected = reference("gauss_newton", "dense", "cross_entropy")
    block = np.random.default_rng(0).standard_normal((59, 2))
    np.testing.assert_allclose(there @ block, expected.numpy() @ block, atol=1e-12)
    np.testing.assert_allclose(there.T @ block[:, 0], expected.numpy() @ block[:, 0], atol=1e-12)
    values = eigsh(there, k=3, return_eigenvectors=False, v0=np.ones(59))
    np.testing.assert_allclose(
        np.sort(values), torch.linalg.eigvalsh(expected)[-3:].numpy(), rtol=1e-8
    )


def test_there_and_back():
    A = as_operator(to_scipy(as_operator(M)))
    assert isinstance(A, OutsideOperator)
    torch.testing.assert_close(A @ torch.ones(5, dtype=torch.float64), torch.from_numpy(M.sum(1)))


@pytest.mark.parametrize("matrix", [3, M[:, :2], np.ones(3)])
def test_not_an_operator(matrix):
    with pytest.raises(CurvboundError, match="is not a square operator"):
        as_operator(matrix)


def test_wrong_shape():
    with pytest.raises(CurvboundError, match="cannot multiply"):
        as_operator(M) @ torch.ones(4)
