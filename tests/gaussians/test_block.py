import pytest
import torch

from curvbound.errors import CurvboundError
from curvbound.gaussians.block import Block
from curvbound.gaussians.layout import BlockLayout
from oracles.gaussians import orthogonal, positive

LAYOUT = BlockLayout("fc", ("fc.weight", "fc.bias"), ((3, 4), (3,)))


def make() -> Block:
    return Block(LAYOUT, positive((3, 5), 0), orthogonal(3, 1), orthogonal(5, 2))


def test_rotating_and_whitening_are_inverse():
    block, matrix = make(), torch.arange(15.0).double().view(3, 5)
    assert torch.allclose(block.whiten(block.rotate(matrix)), matrix)
    assert torch.allclose(block.rotate(matrix), block.left @ matrix @ block.right.T)
    stack = torch.stack([matrix, -matrix])
    assert torch.allclose(block.rotate(stack)[1], -block.rotate(matrix))


@pytest.mark.parametrize(
    ("shape", "left", "right", "shared"),
    [((1, 1), False, False, 15), ((1, 5), False, True, 3), ((3, 1), True, False, 5)],
)
def test_bases_without_effect_are_dropped(shape, left, right, shared):
    block = Block(LAYOUT, positive(shape, 0), orthogonal(3, 1), orthogonal(5, 2))
    assert (block.left is not None, block.right is not None) == (left, right)
    assert block.multiplicity() == shared
    assert block.isotropic == (shape == (1, 1))


def test_noise_comes_from_the_generator_in_the_asked_precision():
    block = make()
    first = block.standard_noise(
        2, torch.Generator().manual_seed(0), torch.float32, torch.device("cpu")
    )
    normal = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0))
    assert torch.equal(first, normal * block.variance.sqrt().float())


def test_defect_is_an_upper_bound():
    block = make()
    basis = torch.kron(block.left, block.right)
    true = torch.linalg.matrix_norm(basis.T @ basis - torch.eye(15), ord=2)
    assert float(true) <= block.defect < 1e-12


@pytest.mark.parametrize("variance", [torch.ones(2, 5), torch.ones(15), -torch.ones(3, 5)])
def test_bad_variances_are_refused(variance):
    with pytest.raises(CurvboundError, match="variance of 'fc'"):
        Block(LAYOUT, variance)
    with pytest.raises(CurvboundError, match="variance of 'fc'"):
        make().with_variance(variance)
