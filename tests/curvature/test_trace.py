import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from curvbound.curvature.trace import frobenius_squared, trace
from curvbound.errors import CurvboundError
from oracles.spectra import CountingOperator, outliers_and_bulk, with_spectrum

MATRIX = with_spectrum(torch.linspace(-1, 3, 40, dtype=torch.float64) ** 3)


@settings(deadline=None, max_examples=20)
@given(size=st.integers(1, 90), seed=st.integers(0, 1000))
def test_small_operators_are_exact(size, seed):
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(size, size, generator=generator, dtype=torch.float64)
    matrix = matrix + matrix.T
    value = trace(CountingOperator(matrix))
    assert value.value == pytest.approx(float(matrix.trace()), abs=1e-10)
    assert (value.stderr, value.samples, value.seed, value.matvecs) == (0.0, 0, None, size)
    squared = frobenius_squared(CountingOperator(matrix))
    assert squared.value == pytest.approx(float(matrix.square().sum()), rel=1e-12)
    assert squared.exact
    assert squared.matvecs == size


def test_an_offered_exact_trace_is_taken_only_when_nothing_else_is_asked_for():
    class Knowing(CountingOperator):
        def exact_trace(self):
            return 17.0

    operator = Knowing(MATRIX)
    assert trace(operator) == type(trace(operator))(17.0)
    assert operator.matvecs == 0
    assert trace(operator, samples=10).samples == 10


def simulated(estimator, runs=300, samples=10, **options):
    """Values and claimed variances of one probe, over independent seeds."""
    results = [
        estimator(CountingOperator(MATRIX), samples=samples, seed=seed, **options)
        for seed in range(runs)
    ]
    values = torch.tensor([result.value for result in results], dtype=torch.float64)
    claimed = torch.tensor([result.stderr**2 for result in results], dtype=torch.float64)
    return values, claimed


def check_mean_and_variance(values, claimed, mean, variance):
    runs = len(values)
    assert abs(float(values.mean()) - mean) < 4 * math.sqrt(variance / runs)
    # A sample variance over n runs has a relative standard error of about sqrt(2 / n).
    assert float(values.var()) == pytest.approx(variance, rel=4 * math.sqrt(2 / runs))
    assert float(claimed.mean()) == pytest.approx(variance, rel=4 * math.sqrt(2 / (runs * 9)))


def test_hutchinson_has_the_mean_and_variance_of_the_formula():
    variance = 2 * (MATRIX.square().sum() - MATRIX.diagonal().square().sum())
    values, claimed = simulated(trace)
    check_mean_and_variance(values, claimed, float(MATRIX.trace()), float(variance) / 10)


def test_frobenius_norm_has_the_mean_and_variance_of_the_formula():
    square = MATRIX @ MATRIX
    variance = 2 * (square.square().sum() - square.diagonal().square().sum())
    values, claimed = simulated(frobenius_squared)
    check_mean_and_variance(values, claimed, float(square.trace()), float(variance) / 10)


def test_hutch_plus_plus_is_unbiased_with_an_honest_error():
    values, claimed = simulated(trace, samples=18, method="hutch++")
    mean_error = float(values.mean()) - float(MATRIX.trace())
    assert abs(mean_error) < 4 * float(values.std()) / math.sqrt(len(values))
    assert float(claimed.mean()) == pytest.approx(float(values.var()), rel=0.35)


def test_hutch_plus_plus_beats_hutchinson_when_outliers_dominate():
    matrix = with_spectrum(outliers_and_bulk(400))
    plain, better = (
        trace(CountingOperator(matrix), samples=90, method=method)
        for method in ("hutchinson", "hutch++")
    )
    assert better.matvecs == plain.matvecs == 90
    assert better.stderr < plain.stderr / 5
    assert abs(better.value - float(matrix.trace())) < 4 * better.stderr


def test_large_operators_are_estimated_within_their_error():
    spectrum = outliers_and_bulk(5000).float()
    operator = CountingOperator(spectrum)
    result = trace(operator)
    assert operator.matvecs == result.matvecs == 100
    assert result.samples == 34
    assert abs(result.value - float(spectrum.sum())) < 4 * result.stderr
    # Rademacher probes see a diagonal matrix without error.
    assert frobenius_squared(operator).value == pytest.approx(
        float(spectrum.square().sum()), rel=1e-5
    )


def test_same_seed_same_number_and_global_state_untouched():
    state = torch.get_rng_state()
    first, second, other = (trace(MATRIX, samples=8, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert first == second
    assert first.seed == 1
    assert first.value != other.value


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"samples": 1}, "samples is 1"),
        ({"samples": 5, "method": "hutch++"}, "Hutch"),
        ({"samples": 2.0}, "samples is 2.0"),
        ({"method": "guess"}, "'hutchinson' or 'hutch"),
    ],
)
def test_bad_arguments_are_refused(options, sentence):
    with pytest.raises(CurvboundError, match=sentence):
        trace(MATRIX, **options)


def test_one_probe_has_no_error():
    with pytest.raises(CurvboundError, match="at least two probes"):
        frobenius_squared(MATRIX, samples=1)
