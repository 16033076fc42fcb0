"""How much memory a calculation needs, and how many examples to handle at once."""

import os
from pathlib import Path

import torch

from curvbound.errors import CurvboundError
from curvbound.layers import layer_kind
from curvbound.probe import Probe

__all__ = ["chunk_size", "free_memory", "require_memory"]

# A second derivative keeps roughly this many times what one backward pass keeps.
GRAPH_FACTOR = 4
# Parameter-sized vectors alive at once in a matrix-vector product.
VECTORS = 6
# Chunk sizes must not depend on the memory that happens to be free: results would then differ in
# their last bits from run to run.
WORKING_SET = 512 * 2**20
# Graphs that products at the same weights share may take this much; beyond it they are streamed.
KEPT_GRAPHS = 2 * 2**30
# Convolutions run fastest when the largest activation of a chunk stays in the cache.
CONV_LARGEST = 2 * 2**20


def free_memory(device: torch.device) -> int:
    """Bytes that are free on ``device``."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        with Path("/proc/meminfo").open() as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 4 * 2**30


def require_memory(
    memory: int | None, device: torch.device, weight_bytes: int, saved_bytes: int
) -> int:
    """The memory limit in bytes; refuses when not even one example fits."""
    limit = free_memory(device) // 2 if memory is None else memory
    needed = VECTORS * weight_bytes + GRAPH_FACTOR * saved_bytes
    if needed > limit:
        raise CurvboundError(
            f"One example needs about {needed / 2**20:.0f} MiB (weights {weight_bytes / 2**20:.0f} "
            f"MiB) but {limit / 2**20:.0f} MiB may be used: raise memory=, restrict parameters= to "
            "some layers, use float32, or a machine with more memory."
        )
    return limit


def chunk_size(probe: Probe, weight_bytes: int, memory: int | None) -> int:
    """Examples to handle at once, from the working set and the kinds of layers."""
    per_example = max(1, GRAPH_FACTOR * probe.saved_bytes)
    size = min(WORKING_SET, memory or WORKING_SET) // per_example
    if any(layer_kind(module) == "conv" for module in probe.use):
        in_cache = CONV_LARGEST // max(1, probe.largest_bytes)
        # Large weights are read once per chunk: activations should outweigh them.
        enough = 2 * weight_bytes // max(1, probe.saved_bytes)
        size = min(size, max(in_cache, enough))
    return max(1, size)
