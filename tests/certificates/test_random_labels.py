"""Labels drawn by lot: every classifier has the true error 1 - 1/C, and no certificate denies it.

Seeds are fixed; a valid bound may fail with probability delta, so this is a test and not a check
at run time (CERT-9).
"""

import math

import numpy as np
import pytest
import torch

import curvbound as cb
from curvbound import datasets, networks
from curvbound.bounds import kl_inverse
from curvbound.certificates import BlockCurvature, closed_form, optimal_prior_lower_bound
from curvbound.certificates.prior import DATA_FREE_GRID
from curvbound.gaussians import isotropic
from oracles.training import fit


def random_inputs(classes, seed):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(240, 30, generator=generator)
    labels = torch.zeros(240, dtype=torch.int64)
    return datasets.Examples(inputs, labels, classes=classes).random_labels(seed)


def random_digits(classes, seed):
    train = datasets.load("digits").train.take(range(240))
    return (train if classes == 10 else train.merge(classes)).random_labels(seed)


WORLDS = {"random inputs": random_inputs, "digits": random_digits}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("world", WORLDS)
def test_no_certificate_is_below_chance(world, classes, seed):
    data = WORLDS[world](classes, seed)
    chance = 1 - 1 / classes
    untrained = networks.build("F-40", data.shape, classes, seed=seed)
    start = {name: tensor.clone() for name, tensor in untrained.state_dict().items()}
    model = networks.build("F-40", data.shape, classes, seed=seed)
    fit(model, data, steps=150)
    with torch.no_grad():
        learnt = (model(data.inputs).argmax(1) != data.targets).float().mean()
    assert learnt < 0.3 * chance  # it did learn the labels by heart
    structure = "kronecker" if seed == 0 else "diagonal"
    certificates = [
        cb.certify(
            model, data, init=start, budget="quick", posterior=structure, keep_mean=seed == 1
        ),
        cb.certify(untrained, data, train=fit, budget="quick", seed=seed),
    ]
    for cert in certificates:
        for claim in cert.record.claims:
            assert claim.bound >= chance, claim.about
    # what is not paid for would have gone below: the trained network's own error
    assert kl_inverse(float(learnt), math.log(2 * math.sqrt(240) / 0.05) / 240) < chance


EXAMPLES, FEATURES, RUNS, DELTA = 16, 196_608, 200, 0.05
MARGIN = 3.0
ONES = np.array([number.bit_count() for number in range(2**EXAMPLES)])
BETAS = np.geomspace(1e-4, 1.0, 9)


def pick_the_best_feature(rng):
    """Errors of the best of many random sign features on random labels."""
    patterns = rng.integers(2**EXAMPLES, size=FEATURES)
    labels = rng.integers(2**EXAMPLES)
    return int(ONES[patterns ^ labels].min())


def gibbs_error(errors, deviation):
    """Training error of sign(w x) for a weight N(margin, deviation^2) and unit features."""
    flip = 0.5 * math.erfc(MARGIN / deviation / math.sqrt(2))
    share = errors / EXAMPLES
    return share * (1 - flip) + (1 - share) * flip


def test_the_oracle_prior_goes_below_chance_and_a_paid_prior_does_not():
    """000-E5: Lemma 4.2 knows for free which of the features was picked."""
    rng = np.random.default_rng(0)
    curvature = 1 / (1 + math.exp(-MARGIN)) / (1 + math.exp(MARGIN))
    nats = math.log(2 * math.sqrt(EXAMPLES) / DELTA)
    h, d = np.full(FEATURES, curvature), np.zeros(FEATURES)
    d[rng.integers(FEATURES)] = MARGIN
    oracles = [optimal_prior_lower_bound(h, d, beta) for beta in BETAS]
    assert {oracle.kind for oracle in oracles} == {"oracle"}
    deviations = [math.sqrt(o.posterior_variance[d > 0][0]) for o in oracles]
    numbers = []
    for _ in range(RUNS):
        errors = pick_the_best_feature(rng)
        numbers.append(
            min(
                kl_inverse(gibbs_error(errors, s), (o.kl + nats) / EXAMPLES)
                for o, s in zip(oracles, deviations, strict=True)
            )
        )
    assert sum(number < 0.5 for number in numbers) > 0.95 * RUNS  # "wrong with certainty"
    assert np.mean(numbers) < 0.4

    # the same weights, with a prior that was there before the labels
    mean = {"fc.weight": torch.from_numpy(d)[None, :]}
    start = {"fc.weight": torch.zeros(1, FEATURES, dtype=torch.float64)}
    block = {"fc": BlockCurvature(torch.from_numpy(h)[None, :])}
    for beta in BETAS:
        form = closed_form(block, mean, start, beta, grids={"fc": DATA_FREE_GRID})
        scale = DATA_FREE_GRID.scale(form.indices["fc"])
        kl = form.posterior.kl(isotropic(start, scale)).total
        variance = float(form.posterior.blocks["fc"].variance.flatten()[0])
        risk = gibbs_error(0, math.sqrt(variance * FEATURES))
        charge = DATA_FREE_GRID.charge(form.indices["fc"])
        assert kl_inverse(risk, (kl + charge + nats) / EXAMPLES) >= 0.5
