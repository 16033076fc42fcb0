"""Settings shared by all tests."""

import os

import torch
from hypothesis import settings

# Two test processes share the machine's cores; one thread each is faster and reproducible.
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"  # what the commands under test run with
os.environ.setdefault("MPLBACKEND", "agg")

settings.register_profile("curvbound", deadline=None, max_examples=40)
settings.load_profile("curvbound")
