"""Full and diagonal blocks against plain matrix algebra."""

import pytest
import torch

from curvbound.curvature.factors import DenseBlock, DiagonalBlock
from curvbound.errors import CurvboundError


def blocks():
    A = torch.randn(5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    matrix = A @ A.T
    diagonal = DiagonalBlock("layer", matrix.diagonal().clone(), "note")
    return [(DenseBlock("layer", matrix, "note"), matrix), (diagonal, matrix.diagonal().diag())]


@pytest.mark.parametrize(("block", "dense"), blocks(), ids=["dense", "diagonal"])
def test_operations(block, dense):
    vectors = torch.randn(5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    damped = dense + 0.3 * torch.eye(5, dtype=torch.float64)
    for v in (vectors, vectors[:, 0]):
        assert torch.allclose(block @ v, dense @ v)
        assert torch.allclose(block.solve(v, 0.3), torch.linalg.solve(damped, v))
        assert torch.allclose(block.from_eigenbasis(block.to_eigenbasis(v)), v)
    assert (block @ vectors.float()).dtype == torch.float32
    assert torch.allclose(block.diagonal(), dense.diagonal())
    assert block.trace() == pytest.approx(float(dense.trace()))
    assert block.logdet(0.3).value == pytest.approx(float(torch.logdet(damped)))
    scaled = block.eigenvalues().unsqueeze(1) * block.to_eigenbasis(vectors)
    assert torch.allclose(block.from_eigenbasis(scaled), dense @ vectors)
    with pytest.raises(CurvboundError, match="has 5 parameters"):
        block @ torch.ones(4)
    assert "note" in repr(block)


def test_damping_share_of_the_log_determinant():
    block = DiagonalBlock("layer", torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64), "")
    logdet = block.logdet(1e-6)
    assert logdet.damping_share == pytest.approx(3 * torch.tensor(1e-6).double().log().item())
    assert logdet.curvature_share == pytest.approx(torch.tensor(1e6 + 1).double().log().item())
    assert logdet.effective_rank == pytest.approx(1.0, abs=1e-5)
