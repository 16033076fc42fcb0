"""Memory estimates and chunk sizes."""

import pytest
import torch
from torch import nn

from curvbound.errors import CurvboundError
from curvbound.layers import LayerUse
from curvbound.memory import chunk_size, free_memory, require_memory
from curvbound.probe import Probe

CPU = torch.device("cpu")


def test_free_memory_is_positive():
    assert free_memory(CPU) > 2**20


def test_too_little_memory_says_what_to_change():
    with pytest.raises(CurvboundError, match=r"One example needs about .* raise memory="):
        require_memory(2**20, CPU, 2**20, 2**20)
    assert require_memory(2**30, CPU, 2**20, 2**20) == 2**30


def test_chunks_do_not_depend_on_free_memory():
    probe = Probe(torch.zeros(1), saved_bytes=2**20, largest_bytes=2**18)
    assert chunk_size(probe, 0, None) == chunk_size(probe, 0, 2**40)
    assert chunk_size(probe, 0, 2**20) == 1


def test_convolutions_get_smaller_chunks():
    dense = Probe(torch.zeros(1), saved_bytes=2**16, largest_bytes=2**14)
    conv = Probe(
        torch.zeros(1), use={nn.Conv2d(1, 1, 1): LayerUse(1, 9)},
        saved_bytes=2**16, largest_bytes=2**14,
    )  # fmt: skip
    assert chunk_size(conv, 0, None) < chunk_size(dense, 0, None)


def test_large_weights_get_larger_chunks():
    conv = Probe(
        torch.zeros(1), use={nn.Conv2d(1, 1, 1): LayerUse(1, 9)},
        saved_bytes=2**20, largest_bytes=2**21,
    )  # fmt: skip
    assert chunk_size(conv, 2**24, None) == 32
    assert chunk_size(conv, 2**18, None) == 1
