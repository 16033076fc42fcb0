"""The search shapes the posterior only, by estimates that the certificate does not use."""

import pytest
import torch

from curvbound import Landscape
from curvbound.bounds import pac_bayes_kl
from curvbound.certificates.claims import CONSTANT, content_seed, evaluate_claims
from curvbound.certificates.preparation import prepare
from curvbound.certificates.prior import Prior
from curvbound.certificates.search import search
from curvbound.certificates.shape import layer_curvature
from curvbound.gaussians import NoisyNetwork, count_errors


@pytest.fixture(scope="module")
def setting(digits, trained):
    model, start = trained
    prepared = prepare(model, start, "the initialisation")
    prior = Prior.from_initialisation(prepared.start)
    asked = []

    def curvature_at(weights):
        asked.append(weights)
        with torch.no_grad():
            for name, tensor in weights.items():
                prepared.model.get_parameter(name).copy_(tensor)
        found = layer_curvature(Landscape(prepared.model, digits), "diagonal")
        prepared.model.load_state_dict({**prepared.model.state_dict(), **trained_weights})
        return found

    trained_weights = {name: tensor.clone() for name, tensor in prepared.trained.items()}
    return prepared, prior, curvature_at, asked


def look(setting, digits, fractions, keep_mean=False):
    prepared, prior, curvature_at, _ = setting
    return search(
        prepared,
        prior,
        curvature_at,
        digits,
        0.05,
        fractions=fractions,
        keep_mean=keep_mean,
        seed=0,
    )


def test_the_best_of_more_places_is_at_least_as_good(setting, digits):
    one = look(setting, digits, (1.0,))
    more = look(setting, digits, (1.0, 0.5))
    assert more.estimate <= one.estimate
    assert more.fraction in (1.0, 0.5)
    assert look(setting, digits, (1.0, 0.5)).estimate == more.estimate  # same seed, same result


def test_the_estimate_is_the_bound_of_an_estimated_risk(setting, digits):
    prepared, prior, _, _ = setting
    best = look(setting, digits, (1.0,), keep_mean=True)
    noisy = NoisyNetwork(prepared.model, best.form.posterior, digits.inputs[:2])
    risk = count_errors(noisy, digits, passes=1, seed=0).risk
    fixed = prior.distribution(best.form.indices)
    kl, charge = best.form.posterior.kl(fixed).total, prior.charge(best.form.indices)
    expected = pac_bayes_kl(risk, kl, len(digits), 0.05, constant=CONSTANT, charge=charge)
    assert best.estimate == expected


def test_a_mean_that_is_kept_is_the_trained_one(setting, digits):
    prepared, _, _, asked = setting
    asked.clear()
    best = look(setting, digits, (1.0,), keep_mean=True)
    for name, tensor in prepared.trained.items():
        assert torch.equal(best.form.posterior.mean[name], tensor)
        assert torch.equal(asked[0][name], tensor)


def test_the_certificate_uses_other_draws_than_the_search(setting, digits):
    prepared, prior, _, _ = setting
    best = look(setting, digits, (1.0,))
    fixed = prior.distribution(best.form.indices)
    found = evaluate_claims(prepared.model, fixed, best.form.posterior, digits, 0.05, 0.0)
    hashes = (fixed.hash, best.form.posterior.hash, digits.hash)
    assert found.monte_carlo.seed == content_seed(*hashes, "Monte Carlo") != 0
