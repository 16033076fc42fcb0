"""Paper 000: one network with all its points, as in one panel of Figures 2 to 4."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from curvbound.certificates.claims import evaluate_claims
from curvbound.certificates.pareto import LOWER_BOUND, Point, pareto
from curvbound.certificates.tradeoff import (
    Subject,
    closed_form_points,
    families,
    lower_bound_curve,
    subject_of,
)
from curvbound.datasets import load
from curvbound.gaussians import Distribution, Gaussian, isotropic
from curvbound.networks import build
from curvbound.papers.p000_settings import DELTA, Profile, Task
from curvbound.papers.result import rounded
from curvbound.training import train

__all__ = ["Panel", "panel"]


@dataclass(frozen=True)
class Panel:
    """Everything about one network.

    Attributes:
        task: Data set and network.
        classes: Number of classes.
        facts: Errors, loss and gradient at the trained weights, distance from the start, sizes.
        points: Points by method.
        certificates: Valid bounds by method, for the best point of each; empty if not computed.
    """

    task: Task
    classes: int
    facts: Mapping[str, Any]
    points: Mapping[str, Sequence[Point]]
    certificates: Sequence[Mapping[str, Any]]

    def to_json(self) -> dict[str, Any]:
        """Plain values; a point says whether it is in the Pareto set of its method."""
        best = {id(p) for found in self.points.values() for p in pareto(found)}
        return {
            "data": self.task.data,
            "network": self.task.network,
            "classes": self.classes,
            **rounded(self.facts),
            "points": [
                rounded({**asdict(p), "error_bound": p.error_bound, "pareto": id(p) in best})
                for found in self.points.values()
                for p in found
            ],
            "certificates": list(self.certificates),  # not rounded
        }


def panel(
    task: Task,
    profile: Profile,
    out: Path | None,
    seed: int,
    say: Callable[[str], None],
    *,
    compare: bool = True,
) -> Panel:
    """Train a network as 000 does and compute its points.

    Args:
        task: Data set and network.
        profile: How much is computed.
        out: Folder for trained networks, which are used again; None: nowhere.
        seed: Seed of everything random.
        say: Called with a sentence when something longer begins.
        compare: Whether to compute the methods too, not only the lower bound.
    """
    say(f"{task.data}: training {task.network}")
    subject, facts = _trained(task, profile, out, seed)
    say(f"{task.data}: lower bound")
    points = {LOWER_BOUND: lower_bound_curve(subject, profile.oracle_betas, curvature="fisher")}
    certificates: list[dict[str, Any]] = []
    if compare:
        for method, family in families(subject, low_rank=profile.low_rank).items():
            say(f"{task.data}: {method}")
            points[method] = closed_form_points(
                subject, method, family, profile.scales, profile.betas
            )
            certificates += _certified(subject, points[method], family)
    return Panel(task, subject.data.classes, facts, points, certificates)


def _trained(
    task: Task, profile: Profile, out: Path | None, seed: int
) -> tuple[Subject, dict[str, Any]]:
    """The network of 000: trained towards 100 % training accuracy, start kept."""
    dataset = load(task.data, scaling=task.scaling)
    data = dataset.train
    if profile.shortened and task.examples is not None:
        data = data.split(task.examples, seed=seed)[0]
    model = build(task.network, dataset.shape, dataset.classes, seed=seed)
    where = None if out is None else out / "networks" / f"{task.data}-{profile.name}-{seed}"
    result = train(
        model,
        data,
        "000",
        test=dataset.test,
        epochs=task.epochs if profile.shortened else None,
        seed=seed,
        out=where,
        resume=out is not None,
    )
    model.eval()
    subject = subject_of(model, result.init, data, examples=profile.seen, delta=DELTA, seed=seed)
    land = subject.landscape
    facts = {
        "n": len(data),
        "delta": DELTA,
        "scaling": task.scaling,
        "parameters": land.size,
        "epochs": result.epochs,
        "train_error": result.train_error,
        "test_error": result.test_error,
        "loss_at_mean": land.loss_value(),  # 000 takes it for 0 (000-E17)
        "gradient_norm": float(land.gradient().norm()),  # and this too
        "squared_distance": subject.squared_distance,
        "accuracy_examples": len(subject.seen),
        "draws": subject.draws,
    }
    return subject, facts


def _certified(
    subject: Subject, points: Sequence[Point], family: Callable[[float, float], Distribution]
) -> list[dict[str, Any]]:
    """A valid bound for the best point: fresh draws, one per example, lambda charged.

    None for posteriors whose layers depend on each other, which have no weight draw per example.
    """
    best = min(points, key=subject.estimate)
    scale = best.prior_variance or 0.0
    posterior = family(scale, best.beta or 0.0)
    if not isinstance(posterior, Gaussian):
        return []
    prior = isotropic(subject.start, scale)
    found = evaluate_claims(
        subject.model, prior, posterior, subject.data, subject.delta, best.charge
    )
    claim = next(c for c in found.claims if c.about == "the randomised network")
    certified = {
        "method": best.method,
        "kind": "certificate",
        "about": claim.about,
        "bound": claim.bound,
        "delta": dict(claim.delta),
        "risk_limit": claim.risk,
        "kl": claim.nats,
        "charge": best.charge,
        "prior_variance": scale,
        "beta": best.beta,
    }
    return [certified]
