import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from curvbound.curvature.logdet import logdet
from curvbound.curvature.trace import trace
from curvbound.errors import CurvboundError
from curvbound.estimates import Estimate
from oracles.spectra import CountingOperator, outliers_and_bulk, with_spectrum

EIGENVALUES = torch.cat([torch.zeros(200), 0.95 ** torch.arange(200)]).double()
MATRIX = with_spectrum(EIGENVALUES)


def exact(damping):
    identity = torch.eye(len(MATRIX), dtype=torch.float64)
    return float(torch.linalg.slogdet(MATRIX + damping * identity).logabsdet)


@pytest.mark.parametrize("damping", [1e-6, 1e-2, 1.0])
def test_small_operators_are_exact(damping):
    result = logdet(CountingOperator(MATRIX, psd=True), damping)
    assert isinstance(result, Estimate)
    assert result.value == pytest.approx(exact(damping), rel=1e-7)
    assert (result.stderr, result.samples, result.seed, result.matvecs) == (0.0, 0, None, 400)
    rank = float((EIGENVALUES / (EIGENVALUES + damping)).sum())
    assert result.effective_rank.value == pytest.approx(rank, rel=1e-6)
    assert result.damping_share == pytest.approx(1 - rank / 400, rel=1e-6)


def test_damping_share_is_the_slope_in_the_logarithm_of_the_damping():
    step = 1e-4
    result = logdet(CountingOperator(MATRIX, psd=True), 0.1)
    slope = (exact(0.1 * math.exp(step)) - exact(0.1 * math.exp(-step))) / (2 * step)
    assert result.damping_share == pytest.approx(slope / 400, rel=1e-6)


@pytest.mark.parametrize("damping", [1e-3, 1e-1])
def test_quadrature_agrees_with_slogdet_within_its_errors(damping):
    operator = CountingOperator(MATRIX, psd=True)
    result = logdet(operator, damping, samples=20, seed=1)
    assert result.matvecs == operator.matvecs
    assert result.samples == 20
    assert 0 < result.quadrature_error < 0.01 * abs(result.value - 400 * math.log(damping))
    assert abs(result.value - exact(damping)) < 4 * result.stderr + result.quadrature_error
    rank = float((EIGENVALUES / (EIGENVALUES + damping)).sum())
    assert abs(result.effective_rank.value - rank) < 4 * result.effective_rank.stderr + 0.1


def test_claimed_error_is_the_spread_between_seeds():
    results = [
        logdet(CountingOperator(MATRIX, psd=True), 0.1, samples=4, seed=seed) for seed in range(60)
    ]
    values = torch.tensor([result.value for result in results], dtype=torch.float64)
    claimed = sum(result.stderr**2 for result in results) / len(results)
    assert claimed == pytest.approx(float(values.var()), rel=0.6)
    assert abs(float(values.mean()) - exact(0.1)) < 4 * float(values.std()) / 60**0.5 + 0.1


def test_large_single_precision_operator():
    eigenvalues = outliers_and_bulk(20_000)
    result = logdet(CountingOperator(eigenvalues.float(), psd=True), 0.01)
    truth = float((eigenvalues + 0.01).log().sum())
    assert result.samples == 16
    # Rademacher probes see a diagonal matrix without error: all that is left is the quadrature.
    assert abs(result.value - truth) < 2 * result.quadrature_error + 1


@settings(deadline=None, max_examples=25)
@given(size=st.integers(1, 30), seed=st.integers(0, 1000), damping=st.floats(1e-3, 10))
def test_logarithm_lies_below_the_trace(size, seed, damping):
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(size, size, generator=generator, dtype=torch.float64)
    operator = CountingOperator(root @ root.T, psd=True)
    value = logdet(operator, damping).value
    assert value <= trace(operator).value + damping * size - size + 1e-9
    identity = logdet(CountingOperator(torch.full((size,), 0.5).double(), psd=True), 0.5)
    assert identity.value == pytest.approx(0, abs=1e-12)


def test_zero_operator_is_damping_alone():
    for samples in (None, 3):
        result = logdet(CountingOperator(torch.zeros(50).double(), psd=True), 0.2, samples=samples)
        assert result.value == pytest.approx(50 * math.log(0.2))
        assert result.damping_share == 1
        assert result.effective_rank.value == 0


def test_indefinite_operators_are_refused_by_tag_and_by_fact():
    operator = CountingOperator(MATRIX)
    for unknown in (operator, MATRIX):
        with pytest.raises(CurvboundError, match="may have negative eigenvalues"):
            logdet(unknown, 1.0)
    assert operator.matvecs == 0
    assert logdet(MATRIX, 1.0, assume_psd=True).value == pytest.approx(exact(1.0))
    liar = CountingOperator(MATRIX - 0.1 * torch.eye(400).double(), psd=True)
    for samples in (None, 3):
        with pytest.raises(CurvboundError, match="has an eigenvalue of at most -0"):
            logdet(liar, 0.5, samples=samples)


@pytest.mark.parametrize("damping", [0.0, -1.0, math.nan, math.inf])
def test_damping_must_be_positive(damping):
    with pytest.raises(CurvboundError, match="must be a positive number"):
        logdet(CountingOperator(MATRIX, psd=True), damping)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"samples": 1}, "samples is 1"),
        ({"samples": 3, "steps": 0}, "steps is 0"),
        ({"tolerance": 0.0}, "tolerance is 0.0"),
    ],
)
def test_bad_arguments_are_refused(options, sentence):
    with pytest.raises(CurvboundError, match=sentence):
        logdet(CountingOperator(MATRIX, psd=True), 1.0, **options)
