"""curvbound: what the loss curvature of a trained network proves about its generalisation.

The public names are loaded on first use, so that ``import curvbound`` costs no more than
``import torch``.
"""

import importlib
from typing import TYPE_CHECKING, Any

from curvbound.errors import CurvboundError

if TYPE_CHECKING:
    from curvbound import datasets, networks
    from curvbound.bounds import kl_inverse, mcallester, pac_bayes_kl
    from curvbound.certificates import (
        Certificate,
        Prior,
        certify,
        closed_form,
        optimal_prior_lower_bound,
        verify,
    )
    from curvbound.curvature import (
        diagonal,
        fisher,
        gauss_newton,
        gram,
        hessian,
        kronecker,
        logdet,
        neuron_blocks,
        spectrum,
        top_eigenpairs,
        trace,
    )
    from curvbound.estimates import Estimate
    from curvbound.landscape import Landscape
    from curvbound.structure import subspace_overlap
    from curvbound.training import train

__version__ = "0.1.0.dev0"

__all__ = [
    "Certificate",
    "CurvboundError",
    "Estimate",
    "Landscape",
    "Prior",
    "certify",
    "closed_form",
    "datasets",
    "diagonal",
    "fisher",
    "gauss_newton",
    "gram",
    "hessian",
    "kl_inverse",
    "kronecker",
    "logdet",
    "mcallester",
    "networks",
    "neuron_blocks",
    "optimal_prior_lower_bound",
    "pac_bayes_kl",
    "spectrum",
    "subspace_overlap",
    "top_eigenpairs",
    "trace",
    "train",
    "verify",
]

_HOMES = {
    "curvbound.bounds": ("kl_inverse", "mcallester", "pac_bayes_kl"),
    "curvbound.certificates": (
        "Certificate",
        "Prior",
        "certify",
        "closed_form",
        "optimal_prior_lower_bound",
        "verify",
    ),
    "curvbound.curvature": (
        "diagonal",
        "fisher",
        "gauss_newton",
        "gram",
        "hessian",
        "kronecker",
        "logdet",
        "neuron_blocks",
        "spectrum",
        "top_eigenpairs",
        "trace",
    ),
    "curvbound.estimates": ("Estimate",),
    "curvbound.landscape": ("Landscape",),
    "curvbound.structure": ("subspace_overlap",),
    "curvbound.training": ("train",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


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
