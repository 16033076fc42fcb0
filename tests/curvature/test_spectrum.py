import math

import pytest
import torch

from curvbound.curvature.spectrum import spectrum
from curvbound.errors import CurvboundError
from oracles.spectra import CountingOperator, outliers_and_bulk, rotation, with_spectrum

EIGENVALUES = torch.cat([torch.tensor([-4.0, 9.0, 12.0]), torch.linspace(-1, 1, 297)]).double()
MATRIX = with_spectrum(EIGENVALUES)


def test_moments_agree_with_the_exact_ones_within_their_errors():
    result = spectrum(CountingOperator(MATRIX), samples=30, steps=20, seed=3)
    for degree in range(5):
        moment = result.trace_of(lambda x, d=degree: x**d)
        exact = float((EIGENVALUES**degree).sum())
        assert abs(moment.value - exact) <= 4 * moment.stderr + 1e-9
        assert moment.samples == 30
        assert moment.matvecs == 600
    assert result.trace_of(torch.ones_like).stderr == pytest.approx(0, abs=1e-10)


def test_first_moment_is_hutchinson_and_its_error_shrinks_as_expected():
    variance = 2 * float(MATRIX.square().sum() - MATRIX.diagonal().square().sum())
    result = spectrum(MATRIX, samples=200, steps=3)
    claimed = result.trace_of(lambda x: x).stderr
    assert claimed == pytest.approx(math.sqrt(variance / 200), rel=0.2)


def test_density_integrates_to_one_and_follows_the_smoothed_truth():
    result = spectrum(MATRIX, samples=40, steps=80, width=0.3, points=500)
    step = float(result.grid[1] - result.grid[0])
    assert float(result.density.sum()) * step == pytest.approx(1, abs=1e-4)
    distance = (result.grid[:, None] - EIGENVALUES) / 0.3
    truth = (-0.5 * distance.square()).exp().mean(1) / (0.3 * math.sqrt(2 * math.pi))
    error = (result.density - truth).abs()
    assert bool((error <= 5 * result.density_stderr + 1e-3).all())
    assert float(error.max()) < 0.1 * float(truth.max())


def test_outliers_on_both_sides_are_found_and_the_bulk_is_not():
    result = spectrum(CountingOperator(MATRIX), samples=4, steps=60)
    assert result.outliers.tolist() == pytest.approx([12, 9, -4], abs=1e-6)


def test_ten_outliers_of_a_hessian_like_spectrum():
    eigenvalues = outliers_and_bulk(20_000).float()
    result = spectrum(CountingOperator(eigenvalues), samples=2, steps=50)
    assert result.outliers.tolist() == pytest.approx(eigenvalues[:10].tolist(), rel=1e-4)


def test_nodes_stay_within_the_spectrum_and_weights_sum_to_one():
    result = spectrum(MATRIX, samples=3, steps=40)
    for nodes, weights in zip(result.nodes, result.weights, strict=True):
        assert -4 - 1e-10 <= float(nodes.min()) <= float(nodes.max()) <= 12 + 1e-10
        assert float(weights.sum()) == pytest.approx(1)


@pytest.mark.parametrize("value", [0.0, -2.0])
def test_multiples_of_the_identity(value):
    result = spectrum(CountingOperator(torch.full((30,), value)), samples=2)
    assert result.matvecs == 2
    assert float(result.trace_of(lambda x: x)) == pytest.approx(30 * value, abs=1e-5)
    assert len(result.outliers) == 0
    assert bool(torch.isfinite(result.density).all())


def test_same_seed_same_density():
    first, second = (spectrum(MATRIX, samples=2, steps=10, seed=4) for _ in range(2))
    assert torch.equal(first.density, second.density)
    assert first.seed == 4


def test_rotation_does_not_matter_in_the_mean():
    Q = rotation(300, 8)
    turned = Q @ MATRIX @ Q.T
    one, other = (
        spectrum((m + m.T) / 2, samples=30, steps=10).trace_of(torch.exp) for m in (MATRIX, turned)
    )
    assert abs(one.value - other.value) < 4 * math.hypot(one.stderr, other.stderr)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"samples": 1}, "samples is 1"),
        ({"steps": 0}, "steps is 0"),
        ({"points": 1}, "points is 1"),
        ({"width": 0.0}, "width is 0.0"),
        ({"width": math.nan}, "width is nan"),
    ],
)
def test_bad_arguments_are_refused(options, sentence):
    with pytest.raises(CurvboundError, match=sentence):
        spectrum(MATRIX, **options)
