"""Kronecker blocks against the dense Kronecker product."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from curvbound.curvature.kronecker_block import KroneckerBlock
from curvbound.errors import CurvboundError


def semi_definite(groups, size, seed):
    generator = torch.Generator().manual_seed(seed)
    A = torch.randn(groups, size, size + 1, dtype=torch.float64, generator=generator)
    return A @ A.mT


def make(groups, m, n, weight, bias):
    width = n * weight + bias
    output, inputs = semi_definite(groups, m, 1), semi_definite(groups, width, 2)
    block = KroneckerBlock("layer", output, inputs, weight=weight, bias=bias, note="")
    # Dense matrix in parameter order: all weights row-major, then all biases.
    full = torch.block_diag(*[torch.kron(output[g], inputs[g]) for g in range(groups)])
    place = torch.arange(groups * m * width).reshape(groups, m, width)
    order = place.reshape(-1)
    if weight and bias:
        order = torch.cat([place[..., :-1].reshape(-1), place[..., -1].reshape(-1)])
    return block, full[order][:, order]


shapes = given(
    groups=st.integers(1, 3),
    m=st.integers(1, 4),
    n=st.integers(1, 4),
    parts=st.sampled_from([(True, True), (True, False), (False, True)]),
)


@shapes
def test_operations_agree_with_the_dense_matrix(groups, m, n, parts):
    block, dense = make(groups, m, n, *parts)
    size = len(dense)
    assert block.shape == (size, size)
    vectors = torch.randn(size, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(block @ vectors, dense @ vectors)
    assert torch.allclose(block @ vectors[:, 0], dense @ vectors[:, 0])
    assert torch.allclose(block.diagonal(), dense.diagonal())
    assert block.trace() == pytest.approx(float(dense.trace()))
    damped = dense + 0.5 * torch.eye(size, dtype=torch.float64)
    assert torch.allclose(block.solve(vectors, 0.5), torch.linalg.solve(damped, vectors))
    logdet = block.logdet(0.5)
    assert logdet.value == pytest.approx(float(torch.logdet(damped)))
    rank = float((block.eigenvalues() / (block.eigenvalues() + 0.5)).sum())
    assert logdet.effective_rank == pytest.approx(rank)


@shapes
def test_the_eigenbasis_is_orthonormal_and_diagonalises(groups, m, n, parts):
    block, dense = make(groups, m, n, *parts)
    size = len(dense)
    identity = torch.eye(size, dtype=torch.float64)
    basis = block.from_eigenbasis(identity)
    assert torch.allclose(basis.T @ basis, identity, atol=1e-10)
    assert torch.allclose(basis.T @ dense @ basis, torch.diag(block.eigenvalues()), atol=1e-8)
    assert torch.allclose(block.to_eigenbasis(identity), basis.T)
    assert torch.allclose(block.to_eigenbasis(identity[:, 0]), basis[0])


def test_matrices_rotate_as_u_transposed_w_v():
    block, _ = make(1, 3, 4, True, True)
    eigen = block.eigh()
    W = torch.arange(15, dtype=torch.float64).reshape(3, 5)
    rotated = block.to_eigenbasis(W)
    assert torch.allclose(rotated, eigen.output_vectors.T @ W @ eigen.input_vectors)
    assert torch.allclose(block.from_eigenbasis(rotated), W)
    flat = torch.cat([W[:, :-1].reshape(-1), W[:, -1]])
    assert torch.allclose(block.to_eigenbasis(flat), rotated.reshape(-1))


def test_determinant_and_trace_of_a_kronecker_product():
    A, B = semi_definite(1, 3, 1), semi_definite(1, 4, 2)
    block = KroneckerBlock("layer", A, B, weight=True, bias=False, note="")
    assert block.trace() == pytest.approx(float(A[0].trace() * B[0].trace()))
    expected = 4 * torch.logdet(A[0]) + 3 * torch.logdet(B[0])
    assert block.logdet(1e-14).value == pytest.approx(float(expected), rel=1e-6)


def test_eigenvalues_descend_and_are_kept():
    block, _ = make(1, 3, 4, True, True)
    eigen = block.eigh()
    assert bool((eigen.input_values.diff() <= 0).all())
    assert bool((eigen.output_values.diff() <= 0).all())
    assert block.eigh() is eigen
    assert block.eigh(torch.float32).output_values.dtype == torch.float32


def test_rounding_never_makes_eigenvalues_negative():
    ones = torch.ones(1, 5, 5)
    block = KroneckerBlock("layer", ones, ones, weight=True, bias=False, note="")
    assert bool((block.eigenvalues() >= 0).all())
    assert bool((block.eigenvalues(torch.float32) >= 0).all())


def test_refuses_what_does_not_fit():
    block, _ = make(1, 3, 4, True, True)
    with pytest.raises(CurvboundError, match="Layer 'layer' has 15 parameters"):
        block @ torch.ones(14)
    with pytest.raises(CurvboundError, match="must be positive"):
        block.solve(torch.ones(15), 0.0)
    with pytest.raises(CurvboundError, match="must be positive"):
        block.logdet(float("nan"))
