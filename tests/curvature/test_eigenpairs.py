import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from curvbound.curvature.eigenpairs import top_eigenpairs
from curvbound.errors import CurvboundError
from oracles.spectra import CountingOperator, kronecker_decay, outliers_and_bulk, with_spectrum

torch64 = torch.float64
UNIFORM = torch.rand(140, generator=torch.Generator().manual_seed(0))
SPECTRA = {
    "decaying": 0.9 ** torch.arange(150, dtype=torch64),
    "clustered": torch.cat([5 + 1e-4 * torch.arange(4), 2 + 1e-3 * torch.arange(6), UNIFORM]),
    "degenerate": torch.cat(
        [torch.full((9,), 5.0), torch.full((3,), 3.0), torch.linspace(0, 1, 138)]
    ),
    "indefinite": torch.linspace(-3, 2, 150),
    "rank deficient": torch.cat([torch.tensor([4.0, 2.0, 1.0]), torch.zeros(147)]),
    "negative": -1 - torch.arange(150, dtype=torch64) / 50,
}


# Its smallest eigenvalues lie closer together than the default tolerance can tell apart.
PACKED = ("decaying", "bottom")


def assert_guaranteed(pairs, eigenvalues, which):
    """What holds for any spectrum: an eigenvalue within every residual, and interlacing."""
    distance = (pairs.values[:, None] - eigenvalues).abs().min(dim=1).values
    assert bool((distance <= pairs.residuals + 1e-12).all())
    if which == "top":
        assert bool((pairs.values <= eigenvalues.flip(0)[: len(pairs.values)] + 1e-12).all())
    else:
        assert bool((pairs.values >= eigenvalues[: len(pairs.values)] - 1e-12).all())


def relative_residual(matrix, pairs):
    error = matrix @ pairs.vectors - pairs.vectors * pairs.values
    return float(error.norm(dim=0).max() / torch.linalg.eigvalsh(matrix).abs().max())


@pytest.mark.parametrize("which", ["top", "bottom"])
@pytest.mark.parametrize("name", SPECTRA)
def test_agrees_with_dense_eigenvalues(name, which):
    matrix = with_spectrum(SPECTRA[name])
    scale = float(SPECTRA[name].abs().max())
    for k in (1, 5, 12):
        operator = CountingOperator(matrix)
        pairs = top_eigenpairs(operator, k, which=which)
        exact = torch.linalg.eigvalsh(matrix)
        exact = exact.flip(0)[:k] if which == "top" else exact[:k]
        assert pairs.converged
        assert pairs.matvecs == operator.matvecs
        assert_guaranteed(pairs, torch.linalg.eigvalsh(matrix), which)
        if (name, which) != PACKED:
            assert torch.allclose(pairs.values, exact, rtol=0, atol=1e-6 * scale)
        identity = torch.eye(k, dtype=torch64)
        assert torch.allclose(pairs.vectors.T @ pairs.vectors, identity, atol=1e-12)
        assert relative_residual(matrix, pairs) <= 1.01e-6


def test_packed_eigenvalues_are_told_apart_by_a_tolerance_below_their_distance():
    matrix = with_spectrum(SPECTRA["decaying"])
    pairs = top_eigenpairs(CountingOperator(matrix), 12, which="bottom", tolerance=1e-11)
    exact = torch.linalg.eigvalsh(matrix)[:12]
    assert torch.allclose(pairs.values, exact, rtol=0, atol=1e-11)


def test_unpacks_into_values_and_vectors():
    values, vectors = top_eigenpairs(np.diag(np.arange(1.0, 31.0)), 2)
    assert values.tolist() == pytest.approx([30, 29])
    assert vectors.shape == (30, 2)
    assert vectors.dtype == torch64


@pytest.mark.parametrize("block", [1, 2, 5])
@pytest.mark.parametrize("basis", [20, 30, 150])
def test_restarts_and_blocks_change_nothing_but_the_cost(block, basis):
    matrix = with_spectrum(torch.linspace(0, 1, 150) ** 3)
    pairs = top_eigenpairs(CountingOperator(matrix), 8, block=block, basis=basis, tolerance=1e-8)
    exact = torch.linalg.eigvalsh(matrix).flip(0)[:8]
    assert (pairs.restarts > 0) == (basis < 100)
    assert torch.allclose(pairs.values, exact, atol=1e-12)
    assert relative_residual(matrix, pairs) <= 1.1e-8


@pytest.mark.parametrize("copies", [2, 3, 9, 40])
@pytest.mark.parametrize("block", [1, 2])
def test_finds_every_copy_of_a_repeated_eigenvalue(copies, block):
    spectrum = torch.cat([torch.full((copies,), 5.0), torch.linspace(0, 2, 2000)])
    pairs = top_eigenpairs(CountingOperator(spectrum), copies + 1, block=block, tolerance=1e-3)
    assert torch.allclose(pairs.values[:copies], torch.tensor(5.0), atol=1e-4)
    assert float(pairs.values[copies]) == pytest.approx(2.0, abs=5e-3)


def test_single_precision_reaches_its_tolerance_and_stays_orthonormal():
    spectrum = outliers_and_bulk(100_000)
    pairs = top_eigenpairs(CountingOperator(spectrum.float()), 10)
    assert pairs.values.dtype == torch.float32
    assert torch.allclose(pairs.values.double(), spectrum[:10], atol=3e-4)
    gram = pairs.vectors.double().T @ pairs.vectors.double()
    assert torch.allclose(gram, torch.eye(10, dtype=torch64), atol=2e-5)
    true = (spectrum[:, None] * pairs.vectors - pairs.vectors * pairs.values).norm(dim=0)
    assert torch.allclose(true, pairs.residuals.double(), atol=1e-5 * 30)
    assert float(true.max()) <= 5.1e-4 * 30


def test_top_ten_of_a_hessian_like_spectrum_takes_at_most_24_products():
    for seed in range(3):
        operator = CountingOperator(outliers_and_bulk(50_000).float())
        pairs = top_eigenpairs(operator, 10, tolerance=1e-3, seed=seed)
        assert pairs.converged
        assert operator.matvecs <= 24


def test_top_fifty_of_a_kronecker_like_spectrum_takes_at_most_120_products():
    spectrum = kronecker_decay()
    exact = spectrum.sort(descending=True).values[:50]
    operator = CountingOperator(spectrum.float())
    pairs = top_eigenpairs(operator, 50)
    error = spectrum[:, None] * pairs.vectors - pairs.vectors * pairs.values
    assert float(error.norm(dim=0).max()) <= 1e-3 * float(exact[0])
    assert torch.allclose(pairs.values.double(), exact, atol=1e-4 * float(exact[0]))
    assert operator.matvecs <= 120


@settings(deadline=None, max_examples=40)
@given(
    spectrum=st.lists(st.integers(-4, 4), min_size=1, max_size=25),
    k=st.integers(1, 25),
    seed=st.integers(0, 1000),
    which=st.sampled_from(["top", "bottom"]),
)
def test_small_integer_spectra_with_any_multiplicities(spectrum, k, seed, which):
    k = min(k, len(spectrum))
    matrix = with_spectrum(torch.tensor(spectrum), seed)
    pairs = top_eigenpairs(CountingOperator(matrix), k, which=which, seed=seed)
    exact = sorted(spectrum, reverse=which == "top")[:k]
    assert pairs.values.tolist() == pytest.approx(exact, abs=1e-5)
    assert pairs.matvecs <= len(spectrum)


@settings(deadline=None, max_examples=20)
@given(size=st.integers(20, 200), k=st.integers(1, 5), seed=st.integers(0, 1000))
def test_ritz_values_lie_within_the_spectrum(size, k, seed):
    generator = torch.Generator().manual_seed(seed)
    spectrum = torch.randn(size, generator=generator, dtype=torch64)
    for which, tolerance in itertools.product(("top", "bottom"), (1e-1, 1e-6)):
        pairs = top_eigenpairs(CountingOperator(spectrum), k, which=which, tolerance=tolerance)
        assert float(pairs.values.max()) <= float(spectrum.max()) + 1e-12
        assert float(pairs.values.min()) >= float(spectrum.min()) - 1e-12


def test_same_seed_same_bits_and_other_generators_untouched():
    spectrum = outliers_and_bulk(2000)
    state = torch.get_rng_state()
    first, second, other = (
        top_eigenpairs(CountingOperator(spectrum), 4, seed=seed) for seed in (7, 7, 8)
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first.vectors, second.vectors)
    assert not torch.equal(first.vectors, other.vectors)


def test_zero_and_identity():
    assert top_eigenpairs(CountingOperator(torch.zeros(50)), 3).values.tolist() == [0, 0, 0]
    identity = top_eigenpairs(CountingOperator(torch.ones(50)), 3, which="bottom")
    assert identity.values.tolist() == pytest.approx([1, 1, 1])
    assert identity.matvecs <= 6


def test_running_out_of_products_is_said():
    operator = CountingOperator(torch.linspace(0, 1, 5000))
    with pytest.warns(RuntimeWarning, match="did not converge in 40 products"):
        pairs = top_eigenpairs(operator, 10, max_matvecs=40)
    assert not pairs.converged
    assert operator.matvecs == pairs.matvecs == 40


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"k": 0}, "k is 0"),
        ({"k": 31}, "only 30 eigenvalues"),
        ({"k": 2.5}, "k is 2.5"),
        ({"k": 3, "which": "middle"}, "'top' or 'bottom'"),
        ({"k": 3, "tolerance": 0.0}, "tolerance is 0.0"),
        ({"k": 3, "block": 0}, "block is 0"),
        ({"k": 3, "basis": 4}, "basis is 4"),
        ({"k": 3, "max_matvecs": 2}, "max_matvecs is 2"),
    ],
)
def test_bad_arguments_are_refused(arguments, sentence):
    operator = CountingOperator(torch.linspace(0, 1, 30))
    with pytest.raises(CurvboundError, match=sentence):
        top_eigenpairs(operator, **arguments)
    assert operator.matvecs == 0


def test_non_symmetric_operator_is_refused():
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(60, 60, generator=generator, dtype=torch64)
    for bad in (matrix, matrix - matrix.T, with_spectrum(UNIFORM[:60]) + 1e-2 * matrix):
        with pytest.raises(CurvboundError, match="not symmetric"):
            top_eigenpairs(CountingOperator(bad), 3)
