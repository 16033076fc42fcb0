"""The rows of the curvature benchmark as other libraries compute them, used as their documents say.

Every entry takes a setting and the data in batches and returns the result.
Set-up that a user does once per network (``extend``, making a ``DataLoader``) is not timed; checks
for determinism are switched off.
"""

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from curvature_cases import PROBES, Batches, Setting, as_is, normal_factors
from curvature_peer_operators import (
    curvlinops_kronecker,
    curvlinops_pairs,
    curvlinops_products,
    curvlinops_top,
    curvlinops_trace,
    eigenthings_products,
    eigenthings_top,
    eigenthings_trace,
)
from curvature_peer_structures import (
    backpack_diagonal,
    backpack_gauss_newton,
    backpack_gram,
    backpack_hessian,
    backpack_kronecker,
    laplace_diagonal,
    laplace_gram,
    laplace_kronecker,
    laplace_pairs,
    nngeometry_fisher,
    nngeometry_gram,
    nngeometry_pairs,
)
from torch import Tensor

# Products of libraries that share nothing between products: ten cost ten times one.
SINGLE = 2


class Peer(NamedTuple):
    """One library's answer to one row.

    Attributes:
        run: Takes the setting and the batches.
        per: What its time is divided by.
        read: Makes a comparable tensor of the result.
        whole: Whether it only takes all data in one batch.
    """

    run: Callable[[Setting, Batches], Any]
    per: int = 1
    read: Callable[[Any, Setting], Tensor] = as_is
    whole: bool = False


def _trace_of_diagonal(run: Callable[[Setting, Batches], Tensor]) -> Callable[..., Tensor]:
    return lambda s, batches: run(s, batches).sum(dtype=torch.float64)


CURVLINOPS, EIGENTHINGS = "curvlinops", "hessian-eigenthings"
BACKPACK, NNGEOMETRY = "BackPACK", "nngeometry"
ASDL, LAPLACE_CURVLINOPS = "laplace (asdl)", "laplace (curvlinops)"
LIBRARIES = (CURVLINOPS, EIGENTHINGS, BACKPACK, NNGEOMETRY, ASDL, LAPLACE_CURVLINOPS)

PEERS: dict[str, dict[str, Peer]] = {
    "hvp": {
        CURVLINOPS: Peer(curvlinops_products("Hessian", 1)),
        EIGENTHINGS: Peer(eigenthings_products("Hessian", 1)),
        BACKPACK: Peer(backpack_hessian(1)),
    },
    "hvp10": {
        CURVLINOPS: Peer(curvlinops_products("Hessian", SINGLE), SINGLE),
        EIGENTHINGS: Peer(eigenthings_products("Hessian", SINGLE), SINGLE),
        BACKPACK: Peer(backpack_hessian(10), 10),
    },
    "ggn10": {
        CURVLINOPS: Peer(curvlinops_products("GGN", SINGLE), SINGLE),
        EIGENTHINGS: Peer(eigenthings_products("GGN", SINGLE), SINGLE),
        BACKPACK: Peer(backpack_gauss_newton(10), 10),
    },
    "probes": {
        CURVLINOPS: Peer(curvlinops_trace, PROBES),
        EIGENTHINGS: Peer(eigenthings_trace, PROBES),
    },
    "trace": {
        BACKPACK: Peer(_trace_of_diagonal(backpack_diagonal)),
    },
    "kronecker": {
        CURVLINOPS: Peer(curvlinops_kronecker, read=curvlinops_pairs),
        BACKPACK: Peer(backpack_kronecker, read=normal_factors),
        NNGEOMETRY: Peer(nngeometry_fisher("PMatKFAC"), read=nngeometry_pairs),
        ASDL: Peer(laplace_kronecker("Asdl"), read=laplace_pairs),
        LAPLACE_CURVLINOPS: Peer(laplace_kronecker("Curvlinops"), read=laplace_pairs),
    },
    "diagonal": {
        BACKPACK: Peer(backpack_diagonal),
        NNGEOMETRY: Peer(nngeometry_fisher("PMatDiag"), read=lambda matrix, s: matrix.get_diag()),
        ASDL: Peer(laplace_diagonal),
    },
    "top": {
        CURVLINOPS: Peer(curvlinops_top(None)),
        EIGENTHINGS: Peer(eigenthings_top(None)),
    },
    "top_fc2": {
        CURVLINOPS: Peer(curvlinops_top("fc2")),
        EIGENTHINGS: Peer(eigenthings_top("fc2")),
    },
    "gram": {
        BACKPACK: Peer(backpack_gram, whole=True),
        NNGEOMETRY: Peer(nngeometry_gram, whole=True),
        ASDL: Peer(laplace_gram, whole=True),
    },
}


def import_all() -> None:
    """Load every library before memory is measured."""
    for name in (
        "backpack.extensions",
        "curvlinops",
        "hessian_eigenthings",
        "laplace.curvature",
        "nngeometry.metrics",
        "nngeometry.object",
        "scipy.sparse.linalg",
    ):
        importlib.import_module(name)
