"""What a network returns, whatever it is wrapped in."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from curvbound.errors import CurvboundError

__all__ = ["logits_of"]


def logits_of(raw: Any) -> Tensor:
    """The output tensor: bare, under ``logits``, or first of a tuple."""
    if isinstance(raw, Tensor):
        return raw
    if hasattr(raw, "logits"):
        raw = raw.logits
    elif isinstance(raw, Mapping) and "logits" in raw:
        raw = raw["logits"]
    elif isinstance(raw, tuple | list) and raw:
        raw = raw[0]
    if not isinstance(raw, Tensor):
        raise CurvboundError(
            f"The network returns a {type(raw).__name__}: it must return a tensor, or something "
            "with 'logits'."
        )
    return raw
