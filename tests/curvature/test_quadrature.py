import pytest
import torch

from curvbound.curvature import quadrature
from curvbound.curvature.products import Products, sample_signs
from curvbound.curvature.quadrature import tridiagonalise
from curvbound.errors import CurvboundError
from oracles.spectra import CountingOperator, with_spectrum

SPECTRUM = torch.linspace(0.1, 4, 80, dtype=torch.float64)
MATRIX = with_spectrum(SPECTRUM)


def probes(count, seed):
    signs = sample_signs(Products(MATRIX), torch.Generator().manual_seed(seed), count)
    return signs / 80**0.5


def form(rule, function):
    nodes, weights = rule
    return float((weights * function(nodes)).sum())


@pytest.mark.parametrize("steps", [1, 3, 8])
def test_gauss_and_radau_are_exact_up_to_their_degree(steps):
    results = tridiagonalise(Products(CountingOperator(MATRIX)), 3, steps, seed=5)
    for z, result in zip(probes(3, 5).T, results, strict=True):
        moment = z.clone()
        for degree in range(2 * steps + 1):
            exact = float(z @ moment)
            if degree < 2 * steps:
                assert form(result.gauss(), lambda x, d=degree: x**d) == pytest.approx(exact)
            assert form(result.radau(0.0), lambda x, d=degree: x**d) == pytest.approx(exact)
            moment = MATRIX @ moment


def test_gauss_and_radau_bracket_the_logarithm():
    logarithm = with_spectrum(SPECTRUM.log())
    for steps in (2, 5, 10):
        results = tridiagonalise(Products(CountingOperator(MATRIX)), 3, steps, seed=5)
        for z, result in zip(probes(3, 5).T, results, strict=True):
            exact = float(z @ logarithm @ z)
            assert form(result.radau(0.05), torch.log) < exact < form(result.gauss(), torch.log)


def test_radau_has_its_node_at_the_end():
    for result in tridiagonalise(Products(CountingOperator(MATRIX)), 2, 6, seed=0):
        assert float(result.radau(0.05)[0][0]) == pytest.approx(0.05, abs=1e-10)


def test_probes_in_turn_and_together_agree(monkeypatch):
    together = tridiagonalise(Products(CountingOperator(MATRIX)), 5, 20, seed=1)
    monkeypatch.setattr(quadrature, "_BASIS_BYTES", 1)
    apart = tridiagonalise(Products(CountingOperator(MATRIX)), 5, 20, seed=1)
    for one, other in zip(together, apart, strict=True):
        assert one.diagonal == pytest.approx(other.diagonal, abs=1e-10)
        assert one.coupling == pytest.approx(other.coupling, abs=1e-10)


def test_an_invariant_space_ends_a_probe_and_saves_products():
    operator = CountingOperator(with_spectrum(torch.tensor([1.0] * 40 + [2.0] * 40)))
    results = tridiagonalise(Products(operator), 4, 30, seed=0)
    assert all(result.complete and len(result.diagonal) == 2 for result in results)
    assert operator.matvecs == 8
    assert torch.equal(results[0].residuals(), torch.zeros(2, dtype=torch.float64))


def test_a_satisfied_probe_stops():
    operator = CountingOperator(MATRIX)
    tridiagonalise(Products(operator), 3, 30, 0, lambda probe: len(probe.diagonal) == 7)
    assert operator.matvecs == 21


def test_non_symmetric_operator_is_refused():
    bad = torch.triu(torch.ones(30, 30, dtype=torch.float64))
    with pytest.raises(CurvboundError, match="not symmetric"):
        tridiagonalise(Products(CountingOperator(bad)), 2, 5, 0)
