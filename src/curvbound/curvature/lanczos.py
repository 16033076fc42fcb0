"""A Krylov basis with full reorthogonalisation, blocks and thick restarts.

The rows R of the basis are orthonormal. The first m of them are *expanded*: their product with H is
known, and lies wholly in the span of all n rows. The other n - m form the *frontier*. With
G = R H R^T (known except between frontier vectors) this is the Lanczos relation

    H R_m^T = R_n^T G[:n, :m],

so the eigenpairs (theta, s) of G[:m, :m] give Ritz pairs (theta, R_m^T s) with residual
||G[m:n, :m] s||. Nothing in it depends on the order of expansion, which makes blocks, restarts, and
fresh starting vectors for eigenvalues of high multiplicity the same operation.
"""

import torch
from torch import Tensor

from curvbound.curvature.products import Products, require_symmetry

__all__ = ["KrylovBasis", "Ritz", "inner_products", "norm", "remove"]

# Long sums and the rotation at a restart work on slices of this many coordinates.
_SLICE = 2**12
# A vector that keeps this share of its length in an orthogonalisation needs no second one.
_KEPT = 0.5
_PASSES = 3


class Ritz:
    """Eigenpairs of the projected matrix, the wanted end of the spectrum first (all float64)."""

    def __init__(self, values: Tensor, vectors: Tensor, residuals: Tensor) -> None:
        self.values = values
        self.vectors = vectors
        self.residuals = residuals

    @property
    def scale(self) -> float:
        """Largest magnitude of a Ritz value: a lower bound of the operator's norm."""
        return float(self.values.abs().max())

    def converged(self, k: int, tolerance: float) -> bool:
        """Whether the first k residuals are at most ``tolerance`` of the largest eigenvalue."""
        return len(self.values) >= k and bool((self.residuals[:k] <= tolerance * self.scale).all())


def inner_products(rows: Tensor, others: Tensor) -> Tensor:
    """``rows @ others.T`` with float64 sums between slices, returned in float64.

    A single-precision sum over 10^5 coordinates loses four digits when few of them dominate, and
    with them the orthogonality of the basis.
    """
    total = torch.zeros(len(rows), len(others), dtype=torch.float64, device=rows.device)
    slices = zip(torch.split(rows, _SLICE, dim=1), torch.split(others, _SLICE, dim=1), strict=True)
    for part, other in slices:
        total += (other @ part.T).T  # the faster way round for many rows and few others
    return total


def norm(vector: Tensor) -> float:
    """Euclidean length, summed in float64."""
    return float(torch.linalg.vector_norm(vector, dtype=torch.float64))


def remove(rows: Tensor, vectors: Tensor) -> Tensor:
    """Make ``vectors`` orthogonal to orthonormal ``rows``, in place; both hold vectors in rows.

    A pass that leaves most of a vector leaves it orthogonal to rounding. One that cancels most of
    it leaves its own rounding errors too, and is repeated; twice is enough, save for noise.

    Returns:
        The inner products that were removed, ``(len(rows), len(vectors))`` in float64.
    """
    removed = torch.zeros(len(rows), len(vectors), dtype=torch.float64, device=rows.device)
    after = torch.linalg.vector_norm(vectors, dim=1, dtype=torch.float64)
    for _ in range(_PASSES):
        before = after
        correction = inner_products(rows, vectors)
        vectors.addmm_(correction.T.to(rows.dtype), rows, alpha=-1)
        removed += correction
        after = torch.linalg.vector_norm(vectors, dim=1, dtype=torch.float64)
        if bool((after >= _KEPT * before).all()):
            break
    return removed


class KrylovBasis:
    """Orthonormal rows, expanded ones first, and the projected matrix between them.

    Holds ``capacity`` vectors of the operator's dimension; that is all the memory that matters.

    Attributes:
        expanded: Number m of rows whose product is known.
        size: Number n of all rows, frontier included.
        starts: Independent random vectors so far. No eigenvalue can show more copies than that.
    """

    def __init__(self, products: Products, capacity: int, generator: torch.Generator) -> None:
        self.products = products
        self.capacity = min(capacity, products.dimension)
        self.generator = generator
        self.rows = torch.empty(
            self.capacity, products.dimension, dtype=products.dtype, device=products.device
        )
        self.projected = torch.zeros(self.capacity, self.capacity, dtype=torch.float64)
        self.expanded = 0
        self.size = 0
        self.starts = 0
        self._epsilon = torch.finfo(products.dtype).eps

    @property
    def frontier(self) -> int:
        """Number of rows that still wait for their product."""
        return self.size - self.expanded

    @property
    def spans_everything(self) -> bool:
        """Whether every row of the whole space is expanded: the Ritz pairs are then exact."""
        return self.expanded == self.products.dimension

    def fits(self, count: int) -> bool:
        """Whether ``count`` more frontier vectors have room."""
        return min(self.size + count, self.products.dimension) <= self.capacity

    def start(self) -> None:
        """Put a fresh random vector, orthogonal to all rows, at the end of the frontier."""
        self.starts += 1
        added = self.size == self.products.dimension
        while not added:
            vector = torch.randn(self.products.dimension, generator=self.generator)
            vector = vector.to(self.products.device, self.products.dtype)
            added = self._append_new_part(vector / norm(vector))

    def expand(self, count: int) -> None:
        """Multiply the first ``count`` frontier vectors and put what is new in the frontier."""
        first, last = self.expanded, self.expanded + count
        known = self.rows[: self.size]
        images = self.products(self.rows[first:last].T).T
        # A copy of their own, with every image in one piece.
        images = images.clone(memory_format=torch.contiguous_format)
        self._record(first, last, remove(known, images).cpu())
        self.expanded = last
        for column, image in zip(range(first, last), images, strict=True):
            self._add_residual(image, column, known=len(known))

    def expand_newest(self) -> None:
        """Multiply the vector that joined the frontier last."""
        first, newest = self.expanded, self.size - 1
        order = torch.arange(self.size)
        order[first], order[newest] = newest, first
        self.rows[[first, newest]] = self.rows[[newest, first]]
        self.projected[: self.size, : self.size] = self.projected[order][:, order]
        self.expand(1)

    def ritz(self, *, descending: bool) -> Ritz:
        """Eigenpairs of the projected matrix with the residuals of their Ritz vectors."""
        values, vectors = torch.linalg.eigh(self.projected[: self.expanded, : self.expanded])
        if descending:
            values, vectors = values.flip(0), vectors.flip(1)
        coupling = self.projected[self.expanded : self.size, : self.expanded]
        return Ritz(values, vectors, (coupling @ vectors).norm(dim=0))

    def vectors(self, ritz: Ritz, count: int) -> Tensor:
        """The first ``count`` Ritz vectors as columns."""
        mix = ritz.vectors[:, :count].T.to(self.rows.device, self.rows.dtype)
        return (mix @ self.rows[: self.expanded]).T.contiguous()

    def restart(self, ritz: Ritz, keep: int) -> None:
        """Thick restart: replace the expanded rows by the first ``keep`` Ritz vectors."""
        mix = ritz.vectors[:, :keep].T.to(self.rows.device, self.rows.dtype)
        for part in torch.split(self.rows, _SLICE, dim=1):
            part[:keep] = mix @ part[: self.expanded]
        coupling = self.projected[self.expanded : self.size, : self.expanded]
        coupling = coupling @ ritz.vectors[:, :keep]
        size = keep + self.frontier
        self.rows[keep:size] = self.rows[self.expanded : self.size].clone()
        self.projected.zero_()
        self.projected[range(keep), range(keep)] = ritz.values[:keep]
        self.projected[keep:size, :keep] = coupling
        self.projected[:keep, keep:size] = coupling.T
        self.expanded, self.size = keep, size

    def _record(self, first: int, last: int, coefficients: Tensor) -> None:
        """Enter the products of rows first..last; what is already known must agree with it."""
        known = self.projected[:first, first:last]
        if first:
            scale = max(float(coefficients.abs().max()), self._scale())
            difference = float((coefficients[:first] - known).abs().max())
            require_symmetry(self.products, difference, scale)
        within = coefficients[first:last]
        coefficients[first:last] = (within + within.T) / 2
        self.projected[: self.size, first:last] = coefficients
        self.projected[first:last, : self.size] = coefficients.T

    def _add_residual(self, image: Tensor, column: int, known: int) -> None:
        """Split a residual into the newest frontier vectors and, if anything is left, one more."""
        before = norm(image)
        for row in range(known, self.size):
            overlap = float(inner_products(self.rows[row : row + 1], image[None]))
            image -= overlap * self.rows[row]
            self._couple(row, column, overlap)
        length = norm(image)
        # Below this the residual is rounding noise: the subspace is invariant.
        if length <= 64 * self._epsilon * self._scale() or self.size == self.products.dimension:
            return
        image /= length
        if length >= _KEPT * before:
            self._append(image)
        elif not self._append_new_part(image):
            return
        self._couple(self.size - 1, column, length)

    def _scale(self) -> float:
        return float(self.projected[: self.size, : self.size].abs().max())

    def _couple(self, row: int, column: int, value: float) -> None:
        self.projected[row, column] = self.projected[column, row] = value

    def _append_new_part(self, vector: Tensor) -> bool:
        """Add what a unit vector has outside of the rows' span; False if that is nothing."""
        remove(self.rows[: self.size], vector[None])
        length = norm(vector)
        if length < 1e-3:
            return False
        self._append(vector / length)
        return True

    def _append(self, vector: Tensor) -> None:
        """Add a unit vector that is orthogonal to the rows."""
        self.rows[self.size] = vector
        self.projected[self.size, :] = 0
        self.projected[:, self.size] = 0
        self.size += 1
