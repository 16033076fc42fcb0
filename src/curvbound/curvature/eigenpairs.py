"""Extreme eigenpairs of a curvature operator (layer-wise Lanczos of 001, matrix-free)."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from curvbound.curvature.lanczos import KrylovBasis, Ritz
from curvbound.curvature.products import Operator, Products, require_count
from curvbound.errors import CurvboundError

__all__ = ["Eigenpairs", "top_eigenpairs"]

# Products spent on a fresh random vector when an eigenvalue may have more copies than were seen.
_PROBE_LENGTH = 6
# Frontier slots beyond the basis proper: blocks and fresh vectors.
_SPARE = 8
# A basis up to this size needs no restarts to save memory.
_CHEAP_BYTES = 2**28


@dataclass(frozen=True, eq=False)
class Eigenpairs:
    """Eigenvalues, eigenvectors and how well they are known; ``values, vectors = ...`` unpacks it.

    Attributes:
        values: The k eigenvalues, most extreme first: descending for the top of the spectrum,
            ascending for the bottom.
        vectors: Orthonormal eigenvectors in columns, shape (P, k).
        residuals: ``||H v - value v||`` of every pair; an eigenvalue lies within it of ``value``.
        converged: Whether every residual is within the tolerance.
        matvecs: Matrix-vector products spent (a block of b vectors counts b).
        iterations: Block products behind them.
        restarts: Thick restarts of the basis.
        seed: Seed of the starting vectors.
    """

    values: Tensor
    vectors: Tensor
    residuals: Tensor
    converged: bool
    matvecs: int
    iterations: int
    restarts: int
    seed: int

    def __iter__(self) -> Iterator[Tensor]:
        yield self.values
        yield self.vectors


def top_eigenpairs(
    H: Operator,
    k: int,
    *,
    which: Literal["top", "bottom"] = "top",
    tolerance: float | None = None,
    seed: int = 0,
    block: int = 2,
    basis: int | None = None,
    max_matvecs: int | None = None,
) -> Eigenpairs:
    """The k largest (or smallest) eigenvalues of a symmetric operator and their eigenvectors.

    Block Lanczos with full reorthogonalisation and thick restarts. It stops as soon as every wanted
    residual is at most ``tolerance`` times the largest eigenvalue in magnitude. A block of two is
    the default because a single vector sees one copy of a repeated eigenvalue only and easily
    overlooks one of two close ones; larger blocks need more products in all, and pay only where an
    operator multiplies wide blocks much faster. If as many equal eigenvalues are found as there
    were starting vectors, a fresh one looks for further copies.

    Every value returned is within its residual of an eigenvalue, and never beyond the eigenvalue of
    the same rank. Eigenvalues packed closer than the tolerance may be skipped, so that the last
    values of a dense cluster can be off by more than it: ask for a smaller tolerance there.

    Memory: ``basis + 8`` vectors of length P while it runs and k more at the end.

    Args:
        H: Symmetric operator with ``shape`` and ``@``.
        k: Number of pairs, 1 <= k <= P.
        which: ``"top"``: largest first; ``"bottom"``: smallest (most negative) first.
        tolerance: Largest residual, relative to the largest eigenvalue in magnitude. By default
            5e-4 for float32 and 1e-6 for float64 operators. Eigenvalue errors are typically of the
            order of its square.
        seed: Seed of the starting vectors.
        block: Vectors multiplied at once.
        basis: Vectors kept before a restart, by default ``2 (k + block) + 20``, or more (at most
            400) as long as they take less than 256 MiB.
        max_matvecs: Products after which to give up, by default ``max(1000, 20 * basis)``.

    Returns:
        The pairs with residuals and cost. If ``max_matvecs`` ran out, ``converged`` is false and a
        ``RuntimeWarning`` says how far it came.

    Raises:
        CurvboundError: If an argument is out of range, or ``H`` is not symmetric or gives NaN.

    >>> import torch
    >>> values, vectors = top_eigenpairs(torch.diag(torch.arange(100.0)), 3)
    >>> [round(float(v), 3) for v in values]
    [99.0, 98.0, 97.0]
    """
    products = Products(H)
    tolerance = _checked_tolerance(tolerance, products)
    require_count(k, 1, "k", "at least one eigenpair must be asked for")
    if k > products.dimension:
        raise CurvboundError(
            f"k is {k}, but the operator has only {products.dimension} eigenvalues: ask for fewer."
        )
    if which not in ("top", "bottom"):
        raise CurvboundError(f"which is {which!r}, but must be 'top' or 'bottom'.")
    require_count(block, 1, "block", "at least one vector is multiplied at a time")
    basis = _default_basis(k, block, products) if basis is None else basis
    require_count(
        basis, k + 2 * block + 2, "basis", f"k={k} pairs with blocks of {block} need room"
    )
    limit = max(1000, 20 * basis) if max_matvecs is None else max_matvecs
    require_count(limit, k, "max_matvecs", f"{k} pairs take at least {k} products")

    search = _Search(products, k, tolerance, which == "top", block, basis, limit, seed)
    ritz = search.run()
    converged = ritz.converged(k, tolerance)
    if not converged:
        worst = float(ritz.residuals[:k].max()) / ritz.scale
        warnings.warn(
            f"The {k} eigenpairs did not converge in {products.matvecs} products: the largest "
            f"residual is {worst:.1e} of the largest eigenvalue instead of {tolerance:.1e}; raise "
            "max_matvecs or tolerance.",
            RuntimeWarning,
            stacklevel=2,
        )
    return Eigenpairs(
        values=ritz.values[:k].to(products.device, products.dtype),
        vectors=search.basis.vectors(ritz, k),
        residuals=ritz.residuals[:k].to(products.device, products.dtype),
        converged=converged,
        matvecs=products.matvecs,
        iterations=search.iterations,
        restarts=search.restarts,
        seed=seed,
    )


def _default_basis(k: int, block: int, products: Products) -> int:
    """Room for k pairs to converge with few restarts, and for none where memory is cheap."""
    cheap = _CHEAP_BYTES // (products.dimension * products.dtype.itemsize)
    return max(2 * (k + block) + 20, min(cheap, 400))


def _checked_tolerance(tolerance: float | None, products: Products) -> float:
    if tolerance is None:
        return 1e-6 if products.dtype == torch.float64 else 5e-4
    least = 100 * torch.finfo(products.dtype).eps
    if not least <= tolerance < 1:
        raise CurvboundError(
            f"tolerance is {tolerance!r}, but {products.dtype} products can only be asked for a "
            f"relative residual from {least:.0e} up to 1."
        )
    return float(tolerance)


class _Search:
    """One run of the restarted block Lanczos iteration."""

    def __init__(
        self,
        products: Products,
        k: int,
        tolerance: float,
        descending: bool,
        block: int,
        basis: int,
        limit: int,
        seed: int,
    ) -> None:
        self.products = products
        self.k = k
        self.tolerance = tolerance
        self.descending = descending
        self.limit = limit
        self.iterations = 0
        self.restarts = 0
        generator = torch.Generator().manual_seed(seed)
        self.basis = KrylovBasis(products, basis + _SPARE, generator)
        for _ in range(min(block, products.dimension)):
            self.basis.start()

    def run(self) -> Ritz:
        """Expand until the wanted pairs have converged and no copy seems to be missing."""
        while True:
            self._expand_block()
            if self.basis.expanded < self.k:
                continue
            ritz = self._ritz()
            done = ritz.converged(self.k, self.tolerance) and (
                not self._copies_may_be_missing(ritz) or self._nothing_is_missing(ritz)
            )
            if done or self._exhausted():
                return self._ritz()

    def _exhausted(self) -> bool:
        return self.products.matvecs >= self.limit or self.basis.spans_everything

    def _ritz(self) -> Ritz:
        return self.basis.ritz(descending=self.descending)

    def _expand_block(self) -> None:
        if not self.basis.frontier:  # an invariant subspace, but too small
            self._make_room(1)
            self.basis.start()
        # Fresh vectors may have widened the frontier beyond what a full basis can take at once.
        count = min(self.basis.frontier, max(1, self._spare_after_restart() // 2))
        count = min(count, self.limit - self.products.matvecs)
        self._make_room(count)
        self.basis.expand(count)
        self.iterations += 1

    def _spare_after_restart(self) -> int:
        return self.basis.capacity - self.k - 1 - self.basis.frontier

    def _make_room(self, count: int) -> None:
        """Restart if the basis is full, keeping the wanted end and half of the rest."""
        if self.basis.fits(count):
            return
        half = (self.k + self.basis.expanded) // 2
        most = self.basis.capacity - self.basis.frontier - count
        self.basis.restart(self._ritz(), min(half, most))
        self.restarts += 1

    def _copies_may_be_missing(self, ritz: Ritz) -> bool:
        """Whether a value inside the wanted ones shows as many copies as there can be.

        A Krylov space holds at most one copy of an eigenvalue per starting vector. Further copies
        of the k-th value itself would change nothing.
        """
        values = ritz.values[: self.k]
        epsilon = torch.finfo(self.products.dtype).eps
        same = (10 * self.tolerance**2 + 100 * epsilon) * ritz.scale
        inner = values[(values - values[-1]).abs() > same]
        copies = (inner[:, None] - inner[None, :]).abs() <= same
        room = self._spare_after_restart() > 1 or self.basis.capacity == self.products.dimension
        return bool((copies.sum(dim=1) >= self.basis.starts).any()) and room

    def _nothing_is_missing(self, before: Ritz) -> bool:
        """Follow a fresh random vector for a few products; whether the wanted values stay put."""
        self._make_room(1)
        self.basis.start()
        for _ in range(_PROBE_LENGTH):
            if not self.basis.frontier or self._exhausted():
                break
            self._make_room(1)
            self.basis.expand_newest()
            self.iterations += 1
            after = self._ritz()
            moved = float((after.values[: self.k] - before.values[: self.k]).abs().max())
            if moved > self.tolerance * after.scale or not after.converged(self.k, self.tolerance):
                return False
        return True
