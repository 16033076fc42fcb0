"""A user's own loss must be a mean over examples."""

import pytest
import torch
from torch import nn

from curvbound.errors import CurvboundError
from curvbound.loss_types import CustomLoss

Z, Y = torch.randn(5, 3, generator=torch.Generator().manual_seed(0)), torch.arange(5) % 3


def test_a_mean_is_accepted():
    loss = CustomLoss(nn.functional.cross_entropy)
    loss.check(Z, Y)
    assert loss.name == "cross_entropy"
    torch.testing.assert_close(loss.sum(Z, Y), 5 * nn.functional.cross_entropy(Z, Y))


def test_a_sum_is_refused():
    with pytest.raises(CurvboundError, match="is not a mean over examples"):
        CustomLoss(nn.CrossEntropyLoss(reduction="sum")).check(Z, Y)


def test_a_vector_is_refused():
    with pytest.raises(CurvboundError, match="must return one number"):
        CustomLoss(nn.CrossEntropyLoss(reduction="none")).check(Z, Y)


def test_one_example_cannot_be_halved():
    CustomLoss(nn.CrossEntropyLoss(reduction="sum")).check(Z[:1], Y[:1])
