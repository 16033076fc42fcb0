"""Kernels are switched and the caller's choice is restored."""

import pytest
import torch
from torch import nn

from curvbound.backends import twice_differentiable


def settings():
    return (
        torch.backends.mha.get_fastpath_enabled(),
        torch._C._get_mkldnn_enabled(),
        torch.backends.cuda.flash_sdp_enabled(),
        torch.is_grad_enabled(),
    )


def _fail_inside() -> None:
    with twice_differentiable(nn.LSTM(2, 2)):
        assert settings() == (False, False, False, True)
        raise ZeroDivisionError


@pytest.mark.parametrize("fast_path", [True, False])
def test_settings_are_restored_after_an_error(fast_path):
    torch.backends.mha.set_fastpath_enabled(fast_path)
    before = settings()
    try:
        with pytest.raises(ZeroDivisionError), torch.no_grad():
            _fail_inside()
        assert settings() == before
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


def test_onednn_stays_on_for_convolutions():
    with twice_differentiable(nn.Conv2d(1, 1, 1)):
        assert torch._C._get_mkldnn_enabled()
