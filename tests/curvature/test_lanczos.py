import torch

from curvbound.curvature.lanczos import KrylovBasis, inner_products, norm, remove
from curvbound.curvature.products import Products
from oracles.spectra import CountingOperator, rotation, with_spectrum

MATRIX = with_spectrum(torch.linspace(-1, 3, 60, dtype=torch.float64))


def basis(starts, capacity=40, matrix=MATRIX):
    krylov = KrylovBasis(Products(CountingOperator(matrix)), capacity, torch.Generator())
    for _ in range(starts):
        krylov.start()
    return krylov


def check_lanczos_relation(krylov):
    rows = krylov.rows[: krylov.size]
    assert torch.allclose(rows @ rows.T, torch.eye(krylov.size, dtype=rows.dtype), atol=1e-13)
    expanded = rows[: krylov.expanded]
    projected = krylov.projected[: krylov.size, : krylov.expanded]
    assert torch.allclose(MATRIX @ expanded.T, rows.T @ projected, atol=1e-12)


def test_relation_holds_through_blocks_fresh_starts_and_restarts():
    krylov = basis(3)
    for _ in range(4):
        krylov.expand(3)
    check_lanczos_relation(krylov)
    krylov.start()
    krylov.expand_newest()
    krylov.expand_newest()
    check_lanczos_relation(krylov)
    krylov.restart(krylov.ritz(descending=True), 6)
    check_lanczos_relation(krylov)
    krylov.expand(2)
    check_lanczos_relation(krylov)


def test_residuals_are_those_of_the_ritz_vectors():
    krylov = basis(2)
    for _ in range(6):
        krylov.expand(2)
    ritz = krylov.ritz(descending=False)
    assert bool((ritz.values.diff() >= 0).all())
    vectors = krylov.vectors(ritz, 12)
    true = (MATRIX @ vectors - vectors * ritz.values).norm(dim=0)
    assert torch.allclose(true, ritz.residuals, atol=1e-12)


def test_an_invariant_subspace_empties_the_frontier():
    krylov = basis(1, matrix=with_spectrum(torch.tensor([2.0] * 30 + [1.0] * 30)))
    krylov.expand(1)
    assert krylov.frontier == 1
    krylov.expand(1)
    assert krylov.frontier == 0
    assert torch.allclose(krylov.ritz(descending=True).residuals, torch.zeros(2).double())


def test_the_whole_space_is_spanned_at_last():
    krylov = basis(1, capacity=100)
    for _ in range(60):
        krylov.expand(1)
    assert krylov.spans_everything
    exact = torch.linalg.eigvalsh(MATRIX).flip(0)
    assert torch.allclose(krylov.ritz(descending=True).values, exact, atol=1e-12)


def test_long_single_precision_sums_keep_their_digits():
    # One coordinate of size 1 and very many small ones: a plain float32 sum drops these.
    vector = torch.full((300_000,), 1e-4)
    vector[0] = 1.0
    exact = float(vector.double() @ vector.double())
    assert abs(float(inner_products(vector[None], vector[None])) / exact - 1) < 1e-5
    assert abs(norm(vector) ** 2 / exact - 1) < 1e-12
    Q = rotation(20, 0)
    assert torch.allclose(inner_products(Q[:3], Q[5:9]), Q[:3] @ Q[5:9].T)


def test_what_nearly_cancels_is_made_orthogonal_all_the_same():
    rows = rotation(50, 3)[:10]
    mix = torch.linspace(1, 2, 20, dtype=torch.float64).reshape(2, 10)
    outside = rotation(50, 3)[10:12]
    vectors = (mix @ rows + 1e-6 * outside).float()
    rows = torch.linalg.qr(rows.float().T)[0].T
    removed = remove(rows, vectors)
    lengths = vectors.norm(dim=1, keepdim=True)
    # What is left is mostly rounding of the large part, but its direction must be orthogonal.
    assert float((rows @ (vectors / lengths).T).abs().max()) < 1e-6
    assert torch.allclose(removed.T @ rows.double(), mix @ rotation(50, 3)[:10], atol=1e-5)
