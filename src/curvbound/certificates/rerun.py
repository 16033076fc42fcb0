"""Checks that need the data and the network: counts made again, with the same and fresh draws."""

import math
import secrets
from typing import Any

import torch
from torch import nn

from curvbound.bounds import kl_inverse, kl_inverse_lower
from curvbound.certificates.claims import (
    PROBES,
    batches_of,
    counted,
    drawn_network,
    outputs_of,
    with_weights,
)
from curvbound.certificates.inputs import as_examples, halves
from curvbound.certificates.preparation import Prepared
from curvbound.certificates.prior import quiet_grids
from curvbound.certificates.recompute import PacBayes, hashes_of
from curvbound.certificates.record import PRIOR_NETWORK, Record
from curvbound.certificates.verification import Check, checked, not_checked
from curvbound.datasets import Dataset, Examples
from curvbound.errors import CurvboundError
from curvbound.gaussians import ErrorCounts, NoisyNetwork, count_errors

__all__ = ["FALSE_ALARM", "Rerun", "find_bound_data", "recount", "same_risk"]

FALSE_ALARM = 1e-6
"""Probability with which the fresh draws accuse a correct certificate."""

_TIE = 1e-5
"""Differences of class scores, relative to the largest one, that rounding may turn around."""


def find_bound_data(given: Any, record: Record) -> tuple[Examples, Examples | None]:
    """The part of the given data that a certificate was computed on, and its prior part.

    The bound data are looked for among the parts of a data set and, for a prior from disjoint
    data, among their halves; the content hash decides.
    """
    pools = [given.train, given.test] if isinstance(given, Dataset) else [given]
    found = [as_examples(pool, "data", record.data.classes) for pool in pools if pool is not None]
    for examples in found:
        if examples.hash == record.data.hash:
            return examples, None
    seed = record.settings.get("seed")
    if record.prior is not None and isinstance(seed, int) and seed >= 0:
        for examples in found:
            if len(examples) > 1:
                prior_part, bound_part = halves(examples, seed)
                if bound_part.hash == record.data.hash:
                    return bound_part, prior_part
    raise CurvboundError(
        f"The data given ({len(found[0]):,} examples, {found[0].classes} classes) are not the "
        f"{record.data.examples:,} examples of {record.data.classes} classes that the certificate "
        "names: their hash differs."
    )


def require_sizes(record: Record, data: Examples) -> str:
    """Compare number of examples and classes with the data that have the recorded hash."""
    if (len(data), data.classes) != (record.data.examples, record.data.classes):
        raise CurvboundError(
            f"The data have {len(data)} examples of {data.classes} classes, not "
            f"{record.data.examples} of {record.data.classes}."
        )
    return f"{len(data):,} examples of {data.classes} classes with the recorded hash"


class Rerun:
    """A PAC-Bayes certificate together with its network and its data."""

    def __init__(
        self, parts: PacBayes, network: nn.Module, data: Examples, prior_data: Examples | None
    ) -> None:
        self.parts, self.network, self.data, self.prior_data = parts, network, data, prior_data

    def checks(self) -> list[Check]:
        """All checks of this file."""
        found = [
            checked("Monte Carlo repeated", self._repeated),
            checked("Monte Carlo with fresh draws", self._fresh),
            checked("errors of the drawn network", self._drawn),
        ]
        if self.parts.source.source == "disjoint data":
            found.append(
                not_checked("prior data", "the data the prior was trained on were not given")
                if self.prior_data is None
                else checked("prior data", self._prior_data)
            )
        held = self.parts.record.holdout
        if held is not None and held.about == PRIOR_NETWORK:
            found.append(checked("errors behind the hold-out bound", self._holdout))
        return found

    def _count(self, seed: int) -> ErrorCounts:
        carlo = self.parts.carlo
        noisy = NoisyNetwork(
            self.network,
            self.parts.posterior,
            self.data.inputs[:PROBES],
            independent=carlo.independent,
        )
        if noisy.independent != carlo.independent:
            raise CurvboundError(
                "This network does not allow a weight draw per example, which the certificate "
                "claims to have made."
            )
        passes = len(carlo.counts)
        return count_errors(noisy, self.data, passes=passes, seed=seed, chunk=carlo.chunk)

    def _repeated(self) -> str | Check:
        again, stored = self._count(self.parts.carlo.seed), self._stored()
        if again.by_draw.tolist() == self.parts.carlo.counts:
            return f"the same seed gives the same {again.errors:,} errors, count by count"
        return Check(
            "Monte Carlo repeated",
            "noted",
            f"the same seed gives {again.errors:,} errors, not {stored.errors:,}; another machine "
            "or version may round otherwise, so the fresh draws decide",
        )

    def _fresh(self) -> str:
        seed = secrets.randbits(48)
        fresh, stored = self._count(seed), self._stored()
        shown = f"{fresh.risk:.6f} with fresh draws (seed {seed}) against {stored.risk:.6f} stored"
        if not same_risk(stored, fresh):
            raise CurvboundError(
                f"{shown}: a correct certificate differs so much once in {1 / FALSE_ALARM:,.0f} "
                "times."
            )
        return f"{shown}; false alarm once in {1 / FALSE_ALARM:,.0f} times"

    def _stored(self) -> ErrorCounts:
        return counted(self.parts.carlo, self.parts.n)

    def _drawn(self) -> str | Check:
        parts = self.parts
        hashes = hashes_of(parts.record, parts.prior, parts.posterior)
        network = drawn_network(self.network, parts.posterior, hashes)
        return recount("errors of the drawn network", network, self.data, parts.drawn_errors)

    def _holdout(self) -> str | Check:
        held = self.parts.record.holdout
        if held is None or held.examples != len(self.data):
            raise CurvboundError("The hold-out bound is not on the data of the bound.")
        network = with_weights(self.network, self.parts.prior.mean)
        return recount("errors behind the hold-out bound", network, self.data, held.errors)

    def _prior_data(self) -> str:
        parts, seen = self.parts, self.prior_data
        if seen is None or seen.hash != parts.source.data_hash:
            raise CurvboundError("The prior part of the data has another hash than recorded.")
        start = parts.prior.mean
        grids = quiet_grids(Prepared(self.network, start, start, ()), seen)
        for name, grid in grids.items():
            largest = parts.union.largest.get(name, math.nan)
            precision = parts.union.precision.get(name, math.nan)
            same = math.isclose(largest, grid.largest, rel_tol=1e-3)
            if not (same and math.isclose(precision, grid.precision, rel_tol=1e-12)):
                raise CurvboundError(
                    f"The grid of prior variances of '{name}' does not follow from the prior data."
                )
        return f"{len(seen):,} examples disjoint from the bound data give the grids of the prior"


def recount(name: str, network: nn.Module, data: Examples, stated: int) -> str | Check:
    """Count the errors of one network; scores that nearly tie may fall either way elsewhere."""
    exact = certain = possible = 0
    with torch.no_grad():
        for inputs, targets in batches_of(data):
            scores = outputs_of(network, inputs)
            targets = targets.to(scores.device)
            room = _TIE * scores.abs().amax()
            own = scores.gather(1, targets[:, None])[:, 0]
            others = scores.scatter(1, targets[:, None], -torch.inf).amax(1)
            exact += int((~(own > others)).sum())
            certain += int((own < others - room).sum())
            possible += int((~(own > others + room)).sum())
    if exact == stated:
        return f"{exact:,} errors on {len(data):,} examples, as stated"
    if certain <= stated <= possible:
        return Check(
            name, "noted", f"{exact:,} errors, not {stated:,}; the difference is nearly tied scores"
        )
    raise CurvboundError(f"{stated:,} errors are stated but {exact:,} were counted.")


def same_risk(stored: ErrorCounts, fresh: ErrorCounts) -> bool:
    """Whether two counts can have one mean: their kl-Chernoff intervals overlap.

    Each interval misses the mean with probability FALSE_ALARM / 2 at most, so two counts of one
    distribution fail with probability FALSE_ALARM at most.
    """
    (low, high), (other_low, other_high) = _interval(stored), _interval(fresh)
    return low <= other_high and other_low <= high


def _interval(counts: ErrorCounts) -> tuple[float, float]:
    trials = counts.passes * (counts.examples if counts.independent == "example" else counts.padded)
    mean = counts.errors / trials
    budget = math.log(4.0 / FALSE_ALARM) / counts.observations
    return kl_inverse_lower(mean, budget), kl_inverse(mean, budget)
