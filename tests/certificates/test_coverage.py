"""How often whole certificates are wrong where the truth is known: no more often than they say.

Inputs take finitely many values, so that the risk of a linear classifier with Gaussian weights is
known exactly, on the data and in truth. Every repetition goes the way of a certificate: a mean
fitted to the data, closed-form posteriors for several temperatures and means, a prior scale chosen
from its grid, the best candidate by an estimate, and then one of the ways to certify it.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.special import ndtr

from curvbound.bounds import (
    LogGrid,
    kl_chernoff_limit,
    kl_inverse,
    maurer_xi,
    pac_bayes_kl,
    single_draw_kl,
)
from curvbound.certificates import BlockCurvature, closed_form
from curvbound.certificates.claims import CONSTANT, split_delta
from curvbound.gaussians import ErrorCounts, isotropic
from oracles.coverage import most_violations

REPETITIONS, N, DIMENSION, POINTS, NOISE = 2000, 40, 12, 30, 0.3
GRID = LogGrid(precision=2.0, largest=10.0)
INDICES = np.arange(1, 51)  # 25 powers of e below the largest, as the package looks
SCALES = np.array([GRID.scale(int(j)) for j in INDICES])
CHARGES = np.array([GRID.charge(int(j)) for j in INDICES])
CANDIDATES = [(fraction, beta) for fraction in (1.0, 0.5) for beta in (0.1, 1.0, 10.0)]
DELTAS = [0.05, 0.3]


@dataclass
class Certified:
    """The chosen posterior of every repetition."""

    x: np.ndarray  # (points, dimension)
    clean: np.ndarray  # (points,) true sign of every point
    drawn: np.ndarray  # (repetitions, n) points of the examples
    y: np.ndarray  # (repetitions, n) labels with noise
    mean: np.ndarray  # (repetitions, dimension)
    variance: np.ndarray  # (repetitions, dimension)
    index: np.ndarray  # (repetitions,) grid index
    kl: np.ndarray  # (repetitions,)
    beta: np.ndarray
    curvature: np.ndarray

    @property
    def charge(self):
        return CHARGES[self.index - 1]

    def wrong(self, mean, variance):
        """Probability that w.x has the sign -1, for every repetition and point."""
        return ndtr(-(mean @ self.x.T) / np.sqrt(variance @ (self.x**2).T))

    def risks(self, mean, variance):
        """Exact Gibbs error on the data and in truth, and that of every example."""
        negative = self.wrong(mean, variance)
        chance = np.take_along_axis(negative, self.drawn, axis=1)
        errors = np.where(self.y > 0, chance, 1 - chance)
        missed = np.where(self.clean > 0, negative, 1 - negative).mean(axis=1)
        return errors.mean(axis=1), NOISE + (1 - 2 * NOISE) * missed, errors


def fitted(inputs, y):
    """Ridge regression on the labels, scaled up, and the diagonal curvature of logistic loss."""
    gram = inputs.transpose(0, 2, 1) @ inputs + np.eye(DIMENSION)
    weights = 3 * np.linalg.solve(gram, (inputs.transpose(0, 2, 1) @ y[..., None]))[..., 0]
    return weights, 0.25 * (inputs**2).mean(axis=1)


def shaped(mean, h, beta):
    """Closed form with the grid point of least price: variance, index and KL."""
    square = (mean**2).sum(axis=1)[:, None]
    prices = 0.5 * (square / SCALES + np.log1p(h[:, None, :] * SCALES[:, None] / beta).sum(axis=2))
    best = (prices + CHARGES).argmin(axis=1)
    scale = SCALES[best][:, None]
    variance = beta / (h + beta / scale)
    ratio = variance / scale
    kl = 0.5 * ((ratio - 1 - np.log(ratio)).sum(axis=1) + square[:, 0] / scale[:, 0])
    return variance, INDICES[best], kl


@pytest.fixture(scope="module")
def certified():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((POINTS, DIMENSION))
    clean = np.sign(x @ rng.standard_normal(DIMENSION))
    drawn = rng.integers(POINTS, size=(REPETITIONS, N))
    y = clean[drawn] * np.where(rng.random(drawn.shape) < NOISE, -1, 1)
    trained, h = fitted(x[drawn], y)
    world = Certified(x, clean, drawn, y, trained, h, None, None, None, h)
    best = np.full(REPETITIONS, np.inf)
    chosen = {}
    for fraction, tenths in CANDIDATES:
        mean, beta = fraction * trained, tenths / N
        variance, index, kl = shaped(mean, h, beta)
        errors = world.risks(mean, variance)[2]
        seen = (rng.random(errors.shape) < errors).mean(axis=1)  # one noisy pass, as in the search
        nats = kl + CHARGES[index - 1] + math.log(maurer_xi(N) / 0.05)
        estimate = kl_inverse(seen, nats / N)
        better = estimate < best
        best = np.where(better, estimate, best)
        found = {"mean": mean, "variance": variance, "index": index, "kl": kl}
        found["beta"] = np.full(REPETITIONS, beta)
        for name, values in found.items():
            pick = better if values.ndim == 1 else better[:, None]
            chosen[name] = np.where(pick, values, chosen.get(name, values))
    return Certified(x, clean, drawn, y, curvature=h, **chosen)


def gibbs_bounds(world, limits, delta):
    nats = world.kl + world.charge + math.log(maurer_xi(N) / delta)
    return kl_inverse(limits, nats / N)


def test_the_simulation_is_what_the_package_does(certified):
    world = certified
    for i in range(25):
        mean = {"fc.weight": torch.from_numpy(world.mean[i])[None, :]}
        start = {"fc.weight": torch.zeros(1, DIMENSION, dtype=torch.float64)}
        block = {"fc": BlockCurvature(torch.from_numpy(world.curvature[i])[None, :])}
        form = closed_form(block, mean, start, float(world.beta[i]), grids={"fc": GRID})
        assert form.indices["fc"] == world.index[i]
        variance = form.posterior.blocks["fc"].variance[0].numpy()
        np.testing.assert_allclose(variance, world.variance[i], rtol=1e-12)
        kl = form.posterior.kl(isotropic(start, GRID.scale(int(world.index[i])))).total
        assert kl == pytest.approx(world.kl[i], rel=1e-10)
        ours = pac_bayes_kl(0.3, kl, N, 0.04, constant=CONSTANT, charge=world.charge[i])
        theirs = gibbs_bounds(world, np.full(REPETITIONS, 0.3), 0.04)[i]
        assert ours == pytest.approx(theirs, rel=1e-10)


def test_selection_uses_all_candidates_and_overfits(certified):
    """The world is hard enough: posteriors differ, and the training error is far too good."""
    risk, truth, _ = certified.risks(certified.mean, certified.variance)
    assert len(np.unique(certified.beta)) > 1
    assert len(np.unique(certified.index)) > 5
    assert (truth - risk).mean() > 0.03


def violations(bound, truth):
    return int((bound < truth).sum())


@pytest.mark.parametrize("delta", DELTAS)
def test_a_draw_per_example(certified, delta):
    rng = np.random.default_rng(1)
    passes, parts = 5, split_delta(delta)
    _, truth, errors = certified.risks(certified.mean, certified.variance)
    counts = (rng.random((passes, *errors.shape)) < errors).sum(axis=(0, 2))
    budget = math.log(1 / parts["Monte Carlo"]) / (passes * N)
    limits = kl_inverse(counts / (passes * N), budget)
    for i in range(20):
        count = ErrorCounts(np.array([[counts[i]]]), passes * N, passes * N, "example", 0)
        assert count.limit(parts["Monte Carlo"]) == pytest.approx(limits[i], rel=1e-12)
    bound = gibbs_bounds(certified, limits, parts["PAC-Bayes"])
    assert violations(bound, truth) <= most_violations(REPETITIONS, delta)
    assert violations(limits, certified.risks(certified.mean, certified.variance)[0]) <= (
        most_violations(REPETITIONS, parts["Monte Carlo"])
    )
    assert violations(np.minimum(1.0, 2 * bound), truth) == 0  # the vote is at most this
    # a certificate that forgets the KL is caught by the same comparison
    forgetful = kl_inverse(limits, math.log(maurer_xi(N) / parts["PAC-Bayes"]) / N)
    assert violations(forgetful, truth) > violations(bound, truth)


def drawn_errors(world, weights, rows):
    """Errors of weights (repetitions, dimension) on the given rows of the examples."""
    scores = np.take_along_axis(weights @ world.x.T, world.drawn[:, rows], axis=1)
    return (np.sign(scores) != world.y[:, rows]).sum(axis=1)


@pytest.mark.parametrize(
    ("chunk", "passes", "delta"), [(16, 12, 0.05), (N, 20, 0.3)], ids=["batch", "shared"]
)
def test_a_draw_per_batch_and_shared_draws(certified, chunk, passes, delta):
    rng = np.random.default_rng(2)
    parts = split_delta(delta)
    risk, truth, _ = certified.risks(certified.mean, certified.variance)
    columns = []
    for _ in range(passes):
        row = []
        for begin in range(0, N, chunk):
            noise = np.sqrt(certified.variance) * rng.standard_normal(certified.mean.shape)
            rows = np.arange(begin, min(N, begin + chunk))
            row.append(drawn_errors(certified, certified.mean + noise, rows))
        columns.append(np.stack(row, axis=1))
    counts = np.stack(columns, axis=1)  # (repetitions, passes, chunks)
    limits = np.array(
        [ErrorCounts(table, N, chunk, "batch", 0).limit(parts["Monte Carlo"]) for table in counts]
    )
    assert violations(limits, risk) <= most_violations(REPETITIONS, parts["Monte Carlo"])
    bound = gibbs_bounds(certified, limits, parts["PAC-Bayes"])
    assert violations(bound, truth) <= most_violations(REPETITIONS, delta)


@pytest.mark.parametrize("delta", DELTAS)
def test_one_drawn_network(certified, delta):
    rng = np.random.default_rng(3)
    world = certified
    noise = rng.standard_normal(world.mean.shape)
    weights = world.mean + np.sqrt(world.variance) * noise
    scale = SCALES[world.index - 1]
    ratio = (
        0.5 * (np.log(scale[:, None] / world.variance) - noise**2).sum(axis=1)
        + 0.5 * (weights**2).sum(axis=1) / scale
    )
    risk = drawn_errors(world, weights, np.arange(N)) / N
    missed = (np.sign(weights @ world.x.T) != world.clean).mean(axis=1)
    truth = NOISE + (1 - 2 * NOISE) * missed
    nats = ratio + world.charge + math.log(maurer_xi(N) / delta)
    bound = kl_inverse(risk, np.maximum(0.0, nats / N))
    for i in range(20):
        ours = single_draw_kl(
            risk[i], ratio[i], N, delta, constant=CONSTANT, charge=world.charge[i]
        )
        assert ours == pytest.approx(bound[i], rel=1e-9)
    assert violations(bound, truth) <= most_violations(REPETITIONS, delta)
    # without the density ratio it is wrong more often
    without = kl_inverse(risk, math.log(maurer_xi(N) / delta) / N)
    assert violations(without, truth) > violations(bound, truth)


def test_picking_the_best_count_without_paying_fails():
    """000-E9: the limit of the smallest of many counts is no limit; fresh draws are."""
    rng = np.random.default_rng(4)
    truth, trials, candidates, delta = 0.2, 400, 50, 0.05
    counts = rng.binomial(trials, truth, (REPETITIONS, candidates))
    nats = math.log(1 / delta) / trials
    assert kl_chernoff_limit(0.2, trials, delta) == pytest.approx(kl_inverse(0.2, nats))
    shopped = kl_inverse(counts.min(axis=1) / trials, nats)
    assert violations(shopped, np.full(REPETITIONS, truth)) > most_violations(REPETITIONS, delta)
    fresh = kl_inverse(counts[:, 0] / trials, nats)
    assert violations(fresh, np.full(REPETITIONS, truth)) <= most_violations(REPETITIONS, delta)
