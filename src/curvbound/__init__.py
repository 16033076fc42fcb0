"""curvbound: what the loss curvature of a trained network proves about its generalisation.

The public names, grouped by purpose. They are loaded on first use, so that ``import curvbound``
costs no more than ``import torch``.
"""

import importlib
from typing import TYPE_CHECKING, Any

from curvbound.errors import CurvboundError

if TYPE_CHECKING:
    from curvbound import datasets, networks
    from curvbound.bounds import kl_inverse, mcallester, pac_bayes_kl
    from curvbound.estimates import Estimate
    from curvbound.training import train

__version__ = "0.1.0.dev0"

__all__ = [
    "CurvboundError",
    "Estimate",
    "datasets",
    "kl_inverse",
    "mcallester",
    "networks",
    "pac_bayes_kl",
    "train",
]

_HOME = {
    "Estimate": "curvbound.estimates",
    "kl_inverse": "curvbound.bounds",
    "mcallester": "curvbound.bounds",
    "pac_bayes_kl": "curvbound.bounds",
    "train": "curvbound.training",
}


def __getattr__(name: str) -> Any:
    if name in ("datasets", "networks"):
        return importlib.import_module(f"curvbound.{name}")
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'curvbound' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
