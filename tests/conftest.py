"""Settings shared by all tests."""

import os

import torch
from hypothesis import HealthCheck, settings

# Two test processes share the machine's cores; one thread each is faster and reproducible.
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"  # what the commands under test run with
os.environ.setdefault("MPLBACKEND", "agg")

# The same examples in every run, so that a failure is never a surprise of the day. To look for new
# ones: pytest --hypothesis-profile explore
calm = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("curvbound", max_examples=40, derandomize=True, **calm)
settings.register_profile("explore", max_examples=400, **calm)
settings.load_profile("curvbound")
