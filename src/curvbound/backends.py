"""Settings under which torch can differentiate every layer twice and in forward mode."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

__all__ = ["twice_differentiable"]


@contextmanager
def twice_differentiable(model: nn.Module) -> Iterator[None]:
    """Choose kernels that have second derivatives, and restore the caller's choice afterwards.

    Fused attention has neither forward mode nor double backward, the transformer fast path has no
    derivative at all, and oneDNN's recurrent kernels have no second one. oneDNN as a whole is only
    switched off for recurrent networks, because convolutions are slow without it.
    """
    with ExitStack() as stack:
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        stack.enter_context(_no_transformer_fast_path())
        if any(isinstance(module, nn.RNNBase) for module in model.modules()):
            stack.enter_context(_no_onednn())
            stack.enter_context(torch.backends.cudnn.flags(enabled=False))
        stack.enter_context(torch.enable_grad())
        yield


@contextmanager
def _no_transformer_fast_path() -> Iterator[None]:
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextmanager
def _no_onednn() -> Iterator[None]:
    # torch.backends.mkldnn.flags would do, but it warns about unrelated settings.
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)
