"""Which closed-form posterior to certify: looked for on estimates, never on the final count."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from curvbound.bounds import pac_bayes_kl
from curvbound.certificates.claims import CONSTANT
from curvbound.certificates.closed_form import BlockCurvature, ClosedForm, closed_form
from curvbound.certificates.preparation import Prepared
from curvbound.certificates.prior import Prior
from curvbound.datasets import Examples
from curvbound.gaussians import NoisyNetwork, count_errors

__all__ = ["Candidate", "search"]

_ESTIMATE_EXAMPLES = 5_000
_DECADES = (-2.0, -1.0, 0.0, 1.0)
"""Where the search for beta starts, in decades of 1/n."""

_REFINEMENTS = (0.5, 0.25)
"""How it goes on around the best so far."""


@dataclass(frozen=True)
class Candidate:
    """A posterior that was looked at.

    Attributes:
        form: The closed-form posterior and its prior scales.
        fraction: Where the loss was expanded, between prior mean and trained weights.
        estimate: What the certificate would say if the estimated risk were exact.
    """

    form: ClosedForm
    fraction: float
    estimate: float


def search(
    prepared: Prepared,
    prior: Prior,
    curvature_at: Callable[[Mapping[str, Tensor]], Mapping[str, BlockCurvature]],
    data: Examples,
    delta: float,
    *,
    fractions: tuple[float, ...],
    keep_mean: bool,
    seed: int,
) -> Candidate:
    """Find beta, and the mean between prior and trained weights, with the smallest estimate.

    All of this shapes the posterior only, over which PAC-Bayes bounds hold simultaneously, so it
    costs nothing; the certifying Monte Carlo uses fresh draws (000-E9).

    Args:
        prepared: The network.
        prior: The prior family.
        curvature_at: Gives the curvature at given weights.
        data: The bound data; a part of them serves for the estimates.
        delta: Failure probability the estimates are made for.
        fractions: Where to expand the loss, on the way from the prior mean (0) to the trained
            network (1).
        keep_mean: Keep the posterior mean at that point instead of shrinking it to the prior mean
            where the loss is flat.
        seed: Seed of the estimates.
    """
    seen = _sample(data, seed)

    def at(fraction: float, decades: Iterable[float]) -> Candidate:
        target = _between(prior.mean, prepared.trained, fraction)
        curvature = curvature_at(target)

        def look(decade: float, stay: bool = keep_mean) -> Candidate:
            beta = 10.0**decade / len(data)
            form = closed_form(
                curvature, target, prior.mean, beta, grids=prior.grids, keep_mean=stay
            )
            noisy = NoisyNetwork(prepared.model, form.posterior, data.inputs[:2])
            risk = count_errors(noisy, seen, passes=1, seed=seed).risk
            estimate = pac_bayes_kl(
                risk,
                form.posterior.kl(prior.distribution(form.indices)).total,
                len(data),
                delta,
                constant=CONSTANT,
                charge=prior.charge(form.indices),
            )
            return Candidate(form, fraction, estimate)

        best = _best(look(decade) for decade in decades)
        for step in _REFINEMENTS:
            centre = _decade(best, data)
            best = _best([best, look(centre - step), look(centre + step)])
        if not keep_mean:  # shrinking trusts the quadratic approximation, which may be poor
            centre = _decade(best, data)
            best = _best([best, look(centre, True), look(centre + 0.5, True)])
        return best

    best = at(fractions[0], _DECADES)
    for fraction in fractions[1:]:
        best = _best([best, at(fraction, [_decade(best, data)])])
    return best


def _decade(candidate: Candidate, data: Examples) -> float:
    return math.log10(candidate.form.beta * len(data))


def _best(candidates: Iterable[Candidate]) -> Candidate:
    return min(candidates, key=lambda candidate: candidate.estimate)


def _between(
    start: Mapping[str, Tensor], end: Mapping[str, Tensor], fraction: float
) -> dict[str, Tensor]:
    if fraction == 1.0:  # the trained weights themselves, not their rounded interpolation
        return dict(end)
    return {name: torch.lerp(start[name], end[name], fraction) for name in end}


def _sample(data: Examples, seed: int) -> Examples:
    if len(data) <= _ESTIMATE_EXAMPLES:
        return data
    return data.split(_ESTIMATE_EXAMPLES, seed=seed)[0]
