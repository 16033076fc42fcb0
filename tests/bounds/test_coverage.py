"""How often the bounds are wrong where the truth is known: no more often than they say.

A count of violations is compared with what failures of probability delta would exceed once in a
million trials. Wrong uses of the same functions are shown to fail the same comparison.
"""

import math

import numpy as np
import pytest

from curvbound.bounds import (
    catoni,
    chernoff,
    clopper_pearson,
    complexity,
    empirical_bernstein_limit,
    finite_grid_charge,
    kl_chernoff_limit,
    kl_inverse,
    monte_carlo_limit,
    single_draw_kl,
)
from oracles.coverage import RandomLabels, ThresholdWorld, most_violations

DELTAS = [0.01, 0.05, 0.3]
REPETITIONS = 2000
N = 60


@pytest.fixture(scope="module")
def threshold_world():
    return ThresholdWorld.draw(REPETITIONS, N, seed=1)


@pytest.fixture(scope="module")
def random_labels():
    return RandomLabels.draw(REPETITIONS, seed=2)


def over_unique(limit, values):
    """Apply a scalar limit to an array with few different values."""
    different, where = np.unique(values, return_inverse=True)
    return np.array([limit(value) for value in different.tolist()])[where]


def budgets(kl, n, delta, **options):
    return np.array([complexity(value, n, delta, **options) for value in kl.tolist()])


@pytest.mark.parametrize(
    ("delta", "constant"), [*((delta, "maurer") for delta in DELTAS), (0.3, "exact")]
)
def test_all_posteriors_at_once_with_chosen_prior_scale(threshold_world, delta, constant):
    world = threshold_world
    charge = finite_grid_charge(len(world.scales))
    budget = budgets(world.kl().min(axis=0), N, delta, constant=constant, charge=charge)
    bound = kl_inverse(world.empirical_risk, budget)
    violated = (bound < world.true_risk()).any(axis=1).sum()
    assert violated <= most_violations(REPETITIONS, delta)
    assert bound.min(axis=1).mean() < 0.45  # the bound says something


@pytest.mark.parametrize("delta", DELTAS)
def test_one_drawn_classifier(threshold_world, delta):
    world = threshold_world
    rng = np.random.default_rng(3)
    charge = finite_grid_charge(len(world.scales))
    best = kl_inverse(
        world.empirical_risk, budgets(world.kl().min(axis=0), N, delta, charge=charge)
    ).argmin(axis=1)
    theta = world.mean[best] + world.std[best] * rng.standard_normal(REPETITIONS)
    scale = world.scales[world.kl().argmin(axis=0)][best]
    ratio = world.log_ratio(theta, best, scale)
    risk, truth = world.drawn_risks(theta)
    budget = (ratio + charge + math.log(2.0 * math.sqrt(N) / delta)) / N
    bound = kl_inverse(risk, np.maximum(0.0, budget))
    for i in range(25):
        single = single_draw_kl(risk[i], ratio[i], N, delta, charge=charge)
        assert single == pytest.approx(bound[i], rel=1e-12)
    assert (bound < truth).sum() <= most_violations(REPETITIONS, delta)
    assert bound.mean() < 0.6


STDS = np.geomspace(0.01, 1.0, 9)
SCALES = np.geomspace(1e-3, 10.0, 9)


@pytest.mark.parametrize("delta", DELTAS)
def test_random_labels_never_get_a_certificate_below_chance(random_labels, delta):
    world = random_labels
    square = (world.w**2).sum(axis=1)
    charge = finite_grid_charge(len(SCALES))
    best = np.ones(REPETITIONS)
    for std in STDS:
        risk = world.empirical_risk(std)
        ratio = std**2 / SCALES[:, None]
        kl = 0.5 * (200 * (ratio - 1.0 - np.log(ratio)) + square / SCALES[:, None]).min(axis=0)
        budget = (kl + charge + math.log(2.0 * math.sqrt(40) / delta)) / 40
        best = np.minimum(best, kl_inverse(risk, budget))
    assert best.min() > 0.5


@pytest.mark.parametrize("delta", DELTAS)
def test_prior_centred_on_the_solution_is_caught(random_labels, delta):
    # posterior = prior = N(w, std^2 I): KL is 0, and the "bound" is below the truth every time
    bound = kl_inverse(random_labels.empirical_risk(1e-3), complexity(0.0, 40, delta))
    assert (bound < 0.5).all()
    if delta == 0.05:
        assert bound.mean() == pytest.approx(0.129, abs=1e-3)


@pytest.mark.parametrize("delta", DELTAS)
def test_drawn_networks_on_random_labels(random_labels, delta):
    world, std, scale = random_labels, 0.02, 0.02
    noise = np.random.default_rng(4).standard_normal(world.w.shape)
    weights = world.w + std * noise
    ratio = (
        -200 * (math.log(std) - 0.5 * math.log(scale))
        - 0.5 * (noise**2).sum(axis=1)
        + 0.5 * (weights**2).sum(axis=1) / scale
    )
    risk = world.drawn_error(weights)
    nats = math.log(2.0 * math.sqrt(40) / delta)
    bound = kl_inverse(risk, np.maximum(0.0, (ratio + nats) / 40))
    assert (bound < 0.5).sum() <= most_violations(REPETITIONS, delta)
    without_ratio = kl_inverse(risk, nats / 40)
    assert (without_ratio < 0.5).sum() > most_violations(REPETITIONS, delta)


@pytest.mark.parametrize("delta", DELTAS)
def test_catoni_minimum_over_its_grid(delta):
    # one posterior, equal to the prior: KL is 0 and the risk a mean of 60 independent numbers
    rng = np.random.default_rng(5)
    grid = [0.5, 1.0, 2.0, 4.0]
    for truth in (0.05, 0.3):
        risks = rng.binomial(N, truth, 20 * REPETITIONS) / N
        bound = over_unique(lambda risk: catoni(risk, 0.0, N, delta, grid=grid), risks)
        assert (bound < truth).sum() <= most_violations(20 * REPETITIONS, delta)


HOLDOUT = {"Clopper-Pearson": clopper_pearson, "Chernoff": chernoff}


@pytest.mark.parametrize("name", HOLDOUT)
@pytest.mark.parametrize("delta", DELTAS)
def test_holdout_bounds(name, delta):
    repetitions = 20_000
    rng = np.random.default_rng(6)
    for truth, n in ((0.02, 150), (0.3, 40), (0.5, 11)):
        errors = rng.binomial(n, truth, repetitions)
        bound = over_unique(lambda k, n=n: HOLDOUT[name](k, n, delta), errors)
        assert (bound < truth).sum() <= most_violations(repetitions, delta)


def test_clopper_pearson_is_nearly_exact():
    # where the tail probability of k errors is just delta, failures are just as frequent as stated
    n, k, delta = 400, 12, 0.05
    truth = clopper_pearson(k, n, delta) * (1 + 1e-9)
    errors = np.random.default_rng(7).binomial(n, truth, 20_000)
    failures = (over_unique(lambda e: clopper_pearson(e, n, delta), errors) < truth).mean()
    assert failures == pytest.approx(delta, abs=0.008)


def draws_of_whole_networks(rng, repetitions, n):
    """Shared draws: one number in [0, 1] per weight draw, mean 0.2, little spread."""
    return rng.beta(8.0, 32.0, (repetitions, n)), 0.2


def draws_per_example(rng, repetitions, n):
    """Independent draws per example: errors with a different probability for every example."""
    chances = np.linspace(0.0, 0.4, n) ** 2
    return (rng.random((repetitions, n)) < chances).astype(float), chances.mean()


def draws_per_batch(rng, repetitions, n):
    """One weight draw per batch of 8 examples: batch means, which depend inside a batch."""
    level = rng.beta(1.0, 6.0, (repetitions, n, 1))
    return (rng.random((repetitions, n, 8)) < level).mean(axis=2), 1.0 / 7.0


FORMS = [draws_of_whole_networks, draws_per_example, draws_per_batch]
LIMITS = {
    "kl-Chernoff": lambda row, delta: kl_chernoff_limit(math.fsum(row) / len(row), len(row), delta),
    "empirical Bernstein": empirical_bernstein_limit,
    "smaller of both": monte_carlo_limit,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("delta", DELTAS)
def test_monte_carlo_limits(form, delta):
    n = 60
    values, truth = form(np.random.default_rng(8), REPETITIONS, n)
    bernstein = np.array([empirical_bernstein_limit(row, delta) for row in values])
    halved = np.array([empirical_bernstein_limit(row, delta / 2) for row in values])
    means = values.mean(axis=1)
    chernoff_limits = kl_inverse(means, math.log(1.0 / delta) / n)
    smaller = np.minimum(halved, kl_inverse(means, math.log(2.0 / delta) / n))
    for i in range(10):  # the arrays above are what the functions give
        assert LIMITS["kl-Chernoff"](values[i], delta) == pytest.approx(chernoff_limits[i])
        assert LIMITS["smaller of both"](values[i], delta) == pytest.approx(smaller[i])
    for limits in (bernstein, chernoff_limits, smaller):
        assert (limits < truth).sum() <= most_violations(REPETITIONS, delta)


@pytest.mark.parametrize("delta", DELTAS)
def test_best_of_a_hundred_candidates(delta):
    candidates, n, truth = 100, 300, 0.1
    rng = np.random.default_rng(9)
    means = rng.binomial(n, truth, (REPETITIONS, candidates)) / n
    most = most_violations(REPETITIONS, delta)

    single = over_unique(lambda mean: kl_chernoff_limit(mean, n, delta), means[:, 0])
    assert (single < truth).sum() <= most

    best = means.min(axis=1)
    careless = over_unique(lambda mean: kl_chernoff_limit(mean, n, delta), best)
    assert (careless < truth).sum() > most  # picking the best breaks a limit made for one

    def charged(mean):
        return kl_chernoff_limit(mean, n, delta, candidates=candidates)

    assert (over_unique(charged, best) < truth).sum() <= most

    fresh = rng.binomial(n, truth, REPETITIONS) / n
    again = over_unique(lambda mean: kl_chernoff_limit(mean, n, delta), fresh)
    assert (again < truth).sum() <= most
