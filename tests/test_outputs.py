"""The output tensor is found in all common wrappings and anything else is refused."""

from types import SimpleNamespace

import pytest
import torch

from curvbound import CurvboundError
from curvbound.outputs import logits_of

TENSOR = torch.ones(2, 3)


@pytest.mark.parametrize(
    "raw", [TENSOR, SimpleNamespace(logits=TENSOR), {"logits": TENSOR}, (TENSOR, None), [TENSOR]]
)
def test_the_tensor_is_found(raw) -> None:
    assert logits_of(raw) is TENSOR


@pytest.mark.parametrize("raw", [None, "text", {"loss": TENSOR}, (), SimpleNamespace(logits=1)])
def test_anything_else_is_refused(raw) -> None:
    with pytest.raises(CurvboundError, match="must return a tensor"):
        logits_of(raw)
