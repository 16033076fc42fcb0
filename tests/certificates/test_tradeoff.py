"""Accuracy against complexity: the points of 000 on a small trained network."""

import math

import pytest
import torch

from curvbound import CurvboundError, datasets, networks, training
from curvbound.certificates.closed_form import BlockCurvature, closed_form
from curvbound.certificates.pareto import BASELINE, DIAGONAL, FULL, LOW_RANK
from curvbound.certificates.tradeoff import (
    closed_form_points,
    families,
    lower_bound_curve,
    subject_of,
)
from curvbound.curvature import neuron_blocks
from curvbound.gaussians import isotropic


@pytest.fixture(scope="module")
def subject():
    data = datasets.load("digits-2").train
    model = networks.build("F-20", data.shape, 2, seed=0)
    result = training.train(model, data, "fast-small", epochs=8, seed=0)
    return subject_of(model.eval(), result.init, data, examples=500)


@pytest.fixture(scope="module")
def found(subject):
    return families(subject, low_rank=30)


def test_complexity_is_the_square_root_of_equation_3(subject):
    n = len(subject.data)
    expected = math.sqrt((100 + math.log(2 * (n - 1) / 0.05)) / (2 * n))
    assert subject.complexity(100.0) == pytest.approx(expected, rel=1e-12)
    assert subject.complexity(99.0, charge=1.0) == pytest.approx(expected, rel=1e-12)


def test_baseline_has_the_divergence_of_equal_covariances(subject, found):
    posterior = found[BASELINE](0.02, 0.0)
    kl = posterior.kl(isotropic(subject.start, 0.02)).total
    assert kl == pytest.approx(subject.squared_distance / (2 * 0.02), rel=1e-9)


def test_hessian_families_are_equation_6_with_the_input_second_moment(subject, found):
    scale, beta = 0.1, 0.003
    blocks = neuron_blocks(subject.landscape)
    for name, block in found[FULL](scale, beta).blocks.items():
        moment = blocks[name].input.double()
        eye = torch.eye(len(moment), dtype=torch.float64)
        dense = beta * torch.linalg.inv(moment + beta / scale * eye)
        covariance = (block.right * block.variance) @ block.right.T
        assert torch.allclose(covariance, dense, rtol=1e-6, atol=1e-9)
        own = found[DIAGONAL](scale, beta).blocks[name]
        expected = beta / (moment.diagonal() + beta / scale)
        assert torch.allclose(own.variance, expected[None], rtol=1e-6)


def test_beta_leads_from_no_noise_to_the_baseline(subject, found):
    prior = isotropic(subject.start, 0.1)
    base = found[BASELINE](0.1, 0.0).kl(prior).total
    for method in (DIAGONAL, FULL, LOW_RANK):
        values = [found[method](0.1, beta).kl(prior).total for beta in (1e-4, 1e-2, 1.0, 1e7)]
        assert values == sorted(values, reverse=True)
        assert values[-1] == pytest.approx(base, rel=1e-3)


def test_points_charge_the_prior_variances_and_not_beta(subject, found):
    scales, betas = [0.01, 0.1], [1e-3, 1e-2, 1e-1]
    points = closed_form_points(subject, DIAGONAL, found[DIAGONAL], scales, betas)
    assert len(points) == 6
    assert {p.kind for p in points} == {"heuristic"}
    assert all(p.charge == pytest.approx(math.log(2)) for p in points)
    baseline = closed_form_points(subject, BASELINE, found[BASELINE], scales, betas)
    assert [p.beta for p in baseline] == [None, None]
    assert baseline[0].accuracy >= baseline[1].accuracy  # more noise, less accuracy
    assert baseline[0].kl > baseline[1].kl


def test_the_same_seed_gives_the_same_points(subject, found):
    first, second = (
        closed_form_points(subject, FULL, found[FULL], [0.1], [1e-2]) for _ in range(2)
    )
    assert first == second


def test_lower_bound_curve_is_an_oracle_that_trades_accuracy_for_complexity(subject):
    curve = lower_bound_curve(subject, [1e-9, 1e-6, 1e-3, 1e3])
    assert {p.kind for p in curve} == {"oracle"}
    assert [p.kl for p in curve] == sorted((p.kl for p in curve), reverse=True)
    assert curve[0].accuracy > 0.97
    assert curve[-1].accuracy < 0.7


def test_sampled_labels_miss_curvature_and_cost_accuracy(subject):
    exact = lower_bound_curve(subject, [1e-9])[0]
    sampled = lower_bound_curve(subject, [1e-9], curvature="fisher")[0]
    assert sampled.accuracy < exact.accuracy


def test_oracle_value_is_below_every_diagonal_pair(subject):
    from curvbound.certificates.feasibility import optimal_prior_lower_bound
    from curvbound.curvature import diagonal

    land = subject.landscape
    h = diagonal(land, kind="fisher").double()
    d = land.flatten([subject.mean[n].double() - subject.start[n].double() for n in land.slices])
    for beta in (1e-6, 1e-4):
        best = optimal_prior_lower_bound(h, d, beta).value
        for scale in (1e-3, 1e-1, 1.0):
            x = scale * h / beta
            kl = 0.5 * float((torch.log1p(x) - x / (1 + x) + d**2 / scale).sum())
            loss = 0.5 * float((h * beta / (h + beta / scale)).sum())
            assert best <= loss + beta * kl


def test_variances_agree_with_the_certificates_closed_form(subject, found):
    """One formula: the families and `closed_form` give the same posterior for the same scale."""
    from curvbound.bounds import LogGrid

    curvature = {
        name: BlockCurvature(block.input.double().diagonal()[None])
        for name, block in neuron_blocks(subject.landscape).items()
    }
    grids = dict.fromkeys(curvature, LogGrid(precision=10.0, largest=10.0))
    form = closed_form(curvature, subject.mean, subject.start, 1e-3, grids=grids)
    for name, j in form.indices.items():
        ours = found[DIAGONAL](grids[name].scale(j), 1e-3).blocks[name]
        theirs = form.posterior.blocks[name]
        assert torch.allclose(ours.variance, theirs.variance, rtol=1e-6)


def test_too_little_of_anything_is_refused(subject):
    with pytest.raises(CurvboundError, match="draws must be at least 1"):
        subject_of(subject.model, subject.start, subject.data, draws=0)
    with pytest.raises(CurvboundError, match="at least 3 examples"):
        subject_of(subject.model, subject.start, subject.data.take([0, 1]))
