"""Accuracy against complexity, the picture of 000: the methods and the lower bound."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from curvbound.bounds import complexity, finite_grid_charge, pac_bayes_kl
from curvbound.certificates.claims import mistakes, with_weights
from curvbound.certificates.feasibility import optimal_prior_lower_bound
from curvbound.certificates.inputs import as_examples
from curvbound.certificates.low_rank_form import sampled_gradients
from curvbound.certificates.pareto import (
    BASELINE,
    DIAGONAL,
    FULL,
    LOW_RANK,
    LOWER_BOUND,
    Point,
)
from curvbound.certificates.preparation import prepare
from curvbound.certificates.shape import layer_curvature
from curvbound.curvature import diagonal as curvature_diagonal
from curvbound.datasets import Examples
from curvbound.errors import CurvboundError
from curvbound.gaussians import (
    Distribution,
    Gaussian,
    LowRank,
    chunk_generator,
    diagonal,
    isotropic,
    kronecker,
)
from curvbound.landscape import Landscape

__all__ = [
    "Subject",
    "closed_form_points",
    "families",
    "lower_bound_curve",
    "subject_of",
]

Family = Callable[[float, float], Distribution]
"""From prior variance and beta to a posterior."""

_NO_NOISE = 1e-30
"""Variance of a coordinate that stays where it is: a Gaussian needs a positive one."""


@dataclass(frozen=True)
class Subject:
    """A trained network, where it started, its data, and how accuracies are estimated.

    Attributes:
        model: Private copy in evaluation mode.
        mean: Trained weights, the mean of every posterior.
        start: Initial weights, the mean of every prior.
        data: The N training examples.
        seen: Those on which accuracies are estimated.
        draws: Weight draws per estimate; all points use the same random numbers.
        delta: Failure probability of the complexity term.
        seed: Seed of the draws and of sampled labels.
    """

    model: nn.Module
    mean: Mapping[str, Tensor]
    start: Mapping[str, Tensor]
    data: Examples
    seen: Examples
    draws: int
    delta: float
    seed: int

    @property
    def landscape(self) -> Landscape:
        """The loss around the trained weights."""
        return Landscape(self.model, self.data)

    @property
    def squared_distance(self) -> float:
        """``|mean - start|^2``."""
        moved = (self.mean[name].double() - self.start[name].double() for name in self.mean)
        return math.fsum(float(difference.square().sum()) for difference in moved)

    def accuracy(self, posterior: Distribution) -> float:
        """Accuracy of the randomised network, estimated with ``draws`` weight draws."""
        errors = 0
        for draw in range(self.draws):
            weights = posterior.sample(chunk_generator(self.seed, draw))
            errors += mistakes(with_weights(self.model, weights), self.seen)
        return 1.0 - errors / (self.draws * len(self.seen))

    def complexity(self, kl: float, charge: float = 0.0) -> float:
        """Square root of 000 eq. 3."""
        budget = complexity(kl, len(self.data), self.delta, constant="000", charge=charge)
        return math.sqrt(budget / 2)

    def estimate(self, point: Point) -> float:
        """The kl form of the bound, were the accuracy of a point exact: for choosing points."""
        risk = min(1.0, max(0.0, 1.0 - point.accuracy))
        return pac_bayes_kl(risk, point.kl, len(self.data), self.delta, charge=point.charge)


def subject_of(
    model: nn.Module,
    init: Mapping[str, Tensor],
    data: Any,
    *,
    examples: int | None = None,
    draws: int = 5,
    delta: float = 0.05,
    seed: int = 0,
) -> Subject:
    """Prepare a trained network for the picture.

    Args:
        model: The trained network; it is not touched.
        init: Its weights before training.
        data: Its training data.
        examples: Estimate accuracies on so many of them; None: on all.
        draws: Weight draws per estimate; 5 in 000.
        delta: Failure probability of the complexity term.
        seed: Seed of the draws and of sampled labels.
    """
    prepared = prepare(model, init, "the initialisation")
    known = as_examples(data, "training data")
    if len(known) < 3:
        raise CurvboundError("The bound of 000 needs at least 3 examples (000-E6).")
    if draws < 1:
        raise CurvboundError(f"draws must be at least 1, not {draws}.")
    seen = known
    if examples is not None and examples < len(known):
        seen = known.split(examples, seed=seed)[0]
    return Subject(
        prepared.model, prepared.trained, prepared.start, known, seen, draws, delta, seed
    )


def families(subject: Subject, *, low_rank: int = 0) -> dict[str, Family]:
    """The posteriors that 000 compares, each as a function of (lambda, beta).

    The baseline has the prior's covariance and ignores beta (000-C9). The others follow 000 eq. 6
    with the layer-wise Hessian of 000 eq. 34: its diagonal, or all of it (000-C10).

    Args:
        subject: The network.
        low_rank: Add the full Fisher matrix of so many sampled gradients (000-C8); 0: do not.
    """
    curvature = layer_curvature(subject.landscape, "neuron-block")
    full = {name: block.values for name, block in curvature.items()}
    rights = {name: b.right for name, b in curvature.items() if b.right is not None}
    own = {
        name: (rights[name].square() @ values[0])[None] if name in rights else values
        for name, values in full.items()
    }
    found: dict[str, Family] = {
        BASELINE: lambda scale, _: isotropic(subject.mean, scale),
        DIAGONAL: _by_equation_6(subject.mean, own, {}),
        FULL: _by_equation_6(subject.mean, full, rights),
    }
    if low_rank:
        rows = sampled_gradients(subject.landscape, low_rank, seed=subject.seed)
        found[LOW_RANK] = lambda scale, beta: LowRank(subject.mean, rows, beta, scale)
    return found


def _by_equation_6(
    mean: Mapping[str, Tensor], values: Mapping[str, Tensor], rights: Mapping[str, Tensor]
) -> Family:
    # One check of the bases for all points of the grid.
    base: Gaussian = kronecker(mean, {n: torch.ones_like(h) for n, h in values.items()}, {}, rights)
    for block in base.blocks.values():
        _ = block.defect  # computed once here, inherited by the copies

    def posterior(scale: float, beta: float) -> Distribution:
        return base.with_variances({name: beta / (h + beta / scale) for name, h in values.items()})

    return posterior


def closed_form_points(
    subject: Subject, method: str, family: Family, scales: Sequence[float], betas: Sequence[float]
) -> list[Point]:
    """Evaluate a family on a grid; the prior variances are charged for, beta is free (000-E7)."""
    charge = finite_grid_charge(len(scales))
    points = []
    for scale in scales:
        prior = isotropic(subject.start, scale)
        for beta in (None,) if method == BASELINE else betas:
            posterior = family(scale, beta or 0.0)
            kl = posterior.kl(prior).total
            accuracy = subject.accuracy(posterior)
            size = subject.complexity(kl, charge)
            points.append(Point(method, "heuristic", scale, beta, accuracy, kl, size, charge))
    return points


def lower_bound_curve(
    subject: Subject,
    betas: Iterable[float],
    *,
    curvature: Literal["gauss_newton", "fisher"] = "gauss_newton",
) -> list[Point]:
    """The lower bound of 000, Fig. 2: accuracy and complexity of the optimal diagonal pair.

    Under the quadratic approximation of the loss, with diagonal Gaussians and both means fixed,
    accuracy and complexity cannot lie below this curve. The prior was fitted to the data, hence an
    oracle (000-E5). Parameters without any curvature get no noise, which favours the lower bound
    (000-E3).

    Args:
        subject: The network.
        betas: Weights of the KL term, one point each.
        curvature: ``fisher`` samples one label per example, as 000 eq. 10 does; weights whose
            curvature the labels happen to miss then get enormous variances. ``gauss_newton`` is
            its expectation, exactly.
    """
    land = subject.landscape
    h = curvature_diagonal(land, kind=curvature, seed=subject.seed).double()
    d = land.flatten([subject.mean[name] - subject.start[name] for name in land.parameters])
    points = []
    for beta in betas:
        oracle = optimal_prior_lower_bound(h, d, beta)
        noise = oracle.posterior_variance
        noise = torch.where(torch.isfinite(noise), noise, 0.0).clamp(min=_NO_NOISE)
        accuracy = subject.accuracy(diagonal(subject.mean, land.unflatten(noise)))
        size = subject.complexity(oracle.kl)
        points.append(
            Point(LOWER_BOUND, "oracle", None, float(beta), accuracy, oracle.kl, size, 0.0)
        )
    return points
