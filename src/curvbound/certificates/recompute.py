"""Checks that need nothing but the certificate: hashes, divergence, charges, limits, bounds."""

import math
from collections.abc import Mapping
from typing import TypeVar

from curvbound.bounds import (
    LogGrid,
    clopper_pearson,
    error_rate,
    pac_bayes_kl,
    single_draw_kl,
)
from curvbound.certificates.claims import (
    CHUNKS,
    CONSTANT,
    content_seed,
    counted,
    drawn_weights,
    looseness,
    passes_over,
    split_delta,
)
from curvbound.certificates.prior import DATA_FREE_GRID, Prior
from curvbound.certificates.record import Claim, MonteCarlo, PriorRecord, Record, Union
from curvbound.certificates.verification import Check, checked
from curvbound.errors import CurvboundError
from curvbound.gaussians import Gaussian

__all__ = ["PacBayes", "check_holdout_record", "hashes_of"]

_T = TypeVar("_T")

_EXACT = 1e-12
"""Room for another mathematics library: results of a few operations on given numbers."""

_SUMMED = 1e-9
"""Room for sums over many tensors in another order."""


class PacBayes:
    """The parts of a PAC-Bayes certificate, none of them missing."""

    def __init__(self, record: Record, prior: Gaussian, posterior: Gaussian) -> None:
        self.record, self.prior, self.posterior = record, prior, posterior
        missing = [
            name
            for name in ("prior", "posterior_hash", "union", "monte_carlo", "drawn_errors")
            if getattr(record, name) is None
        ]
        expected = ["the randomised network", "one drawn network", "the majority vote"]
        if missing or [claim.about for claim in record.claims] != expected:
            raise CurvboundError(
                f"The record lacks {' and '.join(missing) or 'one of the three claims'}, without "
                "which a PAC-Bayes certificate cannot be checked."
            )
        self.gibbs, self.drawn, self.vote = record.claims
        self.n = record.data.examples
        self.source: PriorRecord = _there(record.prior)
        self.union: Union = _there(record.union)
        self.carlo: MonteCarlo = _there(record.monte_carlo)
        self.drawn_errors: int = _there(record.drawn_errors)

    def checks(self) -> list[Check]:
        """All checks of this file."""
        return [
            checked("prior hash", self._prior_hash),
            checked("posterior hash", self._posterior_hash),
            checked("prior scales", self._prior_scales),
            checked("union charges", self._charges),
            checked("KL", self._kl),
            checked("delta ledger", self._ledger),
            checked("Monte Carlo limit", self._limit),
            checked("Monte Carlo seed", self._seed),
            checked("bound of the randomised network", self._gibbs_bound),
            checked("density ratio of the drawn network", self._ratio),
            checked("bound of one drawn network", self._drawn_bound),
            checked("bound of the majority vote", self._vote_bound),
            checked("looseness", self._looseness),
            checked("mean", self._mean),
        ]

    def _prior_hash(self) -> str:
        _require(self.prior.hash == self.source.hash, "The stored prior has another hash.")
        return "the stored prior has the recorded hash"

    def _posterior_hash(self) -> str:
        same = self.posterior.hash == self.record.posterior_hash
        _require(same, "The stored posterior has another hash.")
        return "the stored posterior has the recorded hash"

    def _grids(self) -> Mapping[str, LogGrid]:
        union, layers = self.union, set(self.prior.layouts)
        _require(
            set(union.indices) == set(union.precision) == set(union.largest) == layers,
            "The grids and indices do not belong to the layers of the prior.",
        )
        grids = {name: LogGrid(union.precision[name], union.largest[name]) for name in layers}
        free = self.source.source != "initialisation"
        _require(
            free or all(grid == DATA_FREE_GRID for grid in grids.values()),
            "A prior without data has another grid of variances than the published one.",
        )
        return grids

    def _prior_scales(self) -> str:
        grids = self._grids()
        for name, block in self.prior.blocks.items():
            scale = grids[name].scale(self.union.indices[name])
            same = block.isotropic and _near(float(block.variance.reshape(-1)[0]), scale, _EXACT)
            _require(same, f"The prior variance of '{name}' is not the grid point of its index.")
        return f"the prior variances of {len(grids)} layers are those of their grid indices"

    def _charges(self) -> str:
        family = Prior(self.prior.mean, self.source.source, self._grids(), self.union.tried)
        charges = family.charges(self.union.indices)
        _require(set(charges) == set(self.union.charges), "A choice is not charged.")
        for name, nats in charges.items():
            _agree(self.union.charges[name], nats, f"The charge for '{name}'")
        _agree(self.union.charge, family.charge(self.union.indices), "The sum of the charges")
        return f"{self.union.charge:.4g} nats for scales and {self.union.tried} priors tried"

    def _kl(self) -> str:
        found = self.posterior.kl(self.prior)
        _require(
            set(found.layers) == set(self.record.kl_layers), "The KL is given for other layers."
        )
        for name, nats in found.layers.items():
            _agree(self.record.kl_layers[name], nats, f"The KL of '{name}'", _SUMMED)
        _agree(self.gibbs.nats, found.total, "The KL of the claim", _SUMMED)
        return f"{found.total:.6g} nats, from the stored tensors"

    def _ledger(self) -> str:
        _require(
            list(self.drawn.delta) == ["one draw"],
            "The claim about one drawn network must spend delta on 'one draw' alone.",
        )
        delta = self.drawn.delta["one draw"]
        for claim in (self.gibbs, self.vote):
            _require(
                claim.delta == split_delta(delta),
                f"The ledger of the claim about {claim.about} is {claim.delta}, but delta {delta} "
                f"gives {split_delta(delta)}.",
            )
        held = self.record.holdout
        _require(held is None or held.delta == delta, "The hold-out bound has another delta.")
        return f"every claim spends delta = {delta!r} and no more"

    def _limit(self) -> str:
        carlo = self.carlo
        counts = counted(carlo, self.n)
        passes, chunks = counts.by_draw.shape
        _require(
            carlo.chunk == CHUNKS[carlo.independent]
            and passes == passes_over(self.n)
            and chunks == -(-self.n // carlo.chunk),
            f"{passes} passes over {chunks} chunks of {carlo.chunk} are not what the rule gives "
            f"for {self.n} examples.",
        )
        last = self.n - (chunks - 1) * carlo.chunk
        _require(int(counts.by_draw[:, -1].max()) <= last, "A chunk has more errors than examples.")
        limit = counts.limit(self.gibbs.delta.get("Monte Carlo", math.nan))
        _agree(carlo.limit, limit, "The Monte Carlo limit")
        _agree(self.gibbs.risk, limit, "The risk that entered the bound")
        return f"{counts.errors:,} errors in {passes * self.n:,} predictions give {limit:.6f}"

    def _seed(self) -> str:
        expected = content_seed(*hashes_of(self.record, self.prior, self.posterior), "Monte Carlo")
        _require(
            self.carlo.seed == expected,
            f"The seed is {self.carlo.seed}, but prior, posterior and data give {expected}.",
        )
        return "the seed follows from prior, posterior and data"

    def _gibbs_bound(self) -> str:
        delta = self.gibbs.delta.get("PAC-Bayes", math.nan)
        nats, charge = self.gibbs.nats, self.union.charge
        bound = pac_bayes_kl(self.gibbs.risk, nats, self.n, delta, constant=CONSTANT, charge=charge)
        return _same_bound(self.gibbs, bound)

    def _ratio(self) -> str:
        hashes = hashes_of(self.record, self.prior, self.posterior)
        weights = drawn_weights(self.posterior, content_seed(*hashes, "one drawn network"))
        ratio = self.posterior.log_ratio(self.prior, weights)
        _agree(self.drawn.nats, ratio, "The log density ratio of the drawn network", _SUMMED)
        return f"{ratio:.6g} nats at the weights that the content draws"

    def _drawn_bound(self) -> str:
        risk = error_rate(self.drawn_errors, self.n)
        _agree(self.drawn.risk, risk, "The risk of the drawn network")
        delta = self.drawn.delta.get("one draw", math.nan)
        nats, charge = self.drawn.nats, self.union.charge
        bound = single_draw_kl(risk, nats, self.n, delta, constant=CONSTANT, charge=charge)
        return _same_bound(self.drawn, bound)

    def _vote_bound(self) -> str:
        _agree(self.vote.risk, self.gibbs.risk, "The risk of the majority vote")
        _agree(self.vote.nats, self.gibbs.nats, "The KL of the majority vote")
        return _same_bound(self.vote, min(1.0, 2.0 * self.gibbs.bound))

    def _looseness(self) -> str:
        found = looseness(self.gibbs, self.carlo, self.union, self.record.kl_layers, self.n)
        stated = self.record.looseness
        _require(set(found) == set(stated), "The looseness is given by other sources.")
        for name, part in found.items():
            _require(
                _near(stated[name], part, _SUMMED),
                f"The part '{name}' is {stated[name]}, not {part}.",
            )
        _agree(math.fsum(stated.values()), self.gibbs.bound, "The sum of the parts", _SUMMED)
        return "the parts add up to the bound"

    def _mean(self) -> Check | str:
        moved = self.record.mean_moved
        _require(
            not (moved and self.record.settings.get("keep_mean") is True),
            "The mean was moved although it was to be kept.",
        )
        _require(
            moved or self.record.agreement == 1.0,
            "A mean that was not moved must agree with the network everywhere.",
        )
        return "said to be moved" if moved else "said to be the user's network"


def hashes_of(record: Record, prior: Gaussian, posterior: Gaussian) -> tuple[str, str, str]:
    """What the seeds are derived from."""
    return prior.hash, posterior.hash, record.data.hash


def check_holdout_record(record: Record) -> str:
    """Recompute the plain hold-out bound; of a hold-out certificate, its claim as well."""
    held = record.holdout
    if held is None:
        raise CurvboundError("The record has no hold-out bound.")
    bound = clopper_pearson(held.errors, held.examples, held.delta)
    _agree(held.bound, bound, "The hold-out bound")
    if record.prior is None:
        claim = record.claims[0]
        _require(
            len(record.claims) == 1
            and claim.about == "the network itself"
            and claim.delta == {"hold-out": held.delta}
            and claim.nats == 0.0
            and held.examples == record.data.examples,
            "The claim of a hold-out certificate must be about the network itself, on those data.",
        )
        _agree(claim.bound, bound, "The bound of the claim")
        _agree(claim.risk, error_rate(held.errors, held.examples), "The risk of the claim")
    return f"{held.errors} errors on {held.examples:,} examples give {bound:.6f}"


def _same_bound(claim: Claim, bound: float) -> str:
    _agree(claim.bound, bound, f"The bound of {claim.about}")
    return f"recomputed: {bound:.6f}"


def _agree(stated: float, found: float, what: str, room: float = _EXACT) -> None:
    _require(_near(stated, found, room), f"{what} is stated as {stated!r} but is {found!r}.")


def _near(stated: float, found: float, room: float) -> bool:
    return math.isclose(stated, found, rel_tol=room, abs_tol=room)


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise CurvboundError(sentence)


def _there(value: _T | None) -> _T:
    assert value is not None  # checked by name just before
    return value
