"""Certificates: a record that anybody can check, with the distributions it is about."""

import copy
import math
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Literal

import torch
from torch import nn

from curvbound.certificates.claims import RandomisedNetwork, counted, drawn_network
from curvbound.certificates.record import About, Claim, HoldOut, Record
from curvbound.certificates.storage import read_certificate, write_certificate
from curvbound.errors import CurvboundError
from curvbound.gaussians import Gaussian

__all__ = ["Certificate", "ceiling"]


def ceiling(value: float, digits: int = 4) -> str:
    """Print a bound rounded up, never down.

    >>> ceiling(0.12341), ceiling(0.1234), ceiling(1.0)
    ('0.1235', '0.1234', '1.0000')
    """
    scale = 10**digits
    shown = round(value * scale) / scale
    if shown < value:
        shown = math.ceil(value * scale) / scale
    return f"{shown:.{digits}f}"


class Certificate:
    """A valid upper bound on the true error, and all that is needed to check it again.

    ``print(cert)`` gives the claim, the delta ledger and where the looseness sits. Attributes of
    the main claim are properties; everything else is in ``record``.
    """

    def __init__(
        self,
        record: Record,
        *,
        prior: Gaussian | None = None,
        posterior: Gaussian | None = None,
        model: nn.Module | None = None,
    ) -> None:
        self.record = record
        self.prior = prior
        self.posterior = posterior
        self._model = model

    @property
    def claim(self) -> Claim:
        """The main claim."""
        return self.record.claims[0]

    @property
    def bound(self) -> float:
        """Upper bound on the true error."""
        return self.claim.bound

    @property
    def kind(self) -> str:
        """Always ``"certificate"``: no other kind of number is ever stored in this class."""
        return self.record.kind

    @property
    def about(self) -> About:
        """What the bound is about."""
        return self.claim.about

    @property
    def delta(self) -> dict[str, float]:
        """The delta ledger: failure probability by event."""
        return dict(self.claim.delta)

    @property
    def confidence(self) -> float:
        """One minus everything in the ledger."""
        return 1.0 - math.fsum(self.claim.delta.values())

    @property
    def n(self) -> int:
        """Number of examples the bound was computed on."""
        return self.record.data.examples

    @property
    def kl(self) -> float:
        """KL(posterior || prior) in nats, rounded up."""
        return self.claim.nats

    @property
    def empirical_risk(self) -> float:
        """Measured error of the certified predictor on those examples."""
        if self.record.monte_carlo is None:
            return self.claim.risk
        return counted(self.record.monte_carlo, self.n).risk

    @property
    def holdout(self) -> HoldOut | None:
        """The plain test-set bound beside it, where the data allow one."""
        return self.record.holdout

    @property
    def chance(self) -> float:
        """Error of guessing uniformly."""
        return 1.0 - 1.0 / self.record.data.classes

    @property
    def vacuous(self) -> bool:
        """Whether guessing would do as well as the bound promises."""
        return self.bound >= self.chance

    @cached_property
    def sentence(self) -> str:
        """The claim in one sentence."""
        return self.sentence_of(self.claim)

    def sentence_of(self, claim: Claim) -> str:
        """One of the claims in one sentence."""
        percent = 100 * (1.0 - math.fsum(claim.delta.values()))
        return (
            f"With confidence {percent:.4g} %, {claim.about} has a true error of at most "
            f"{ceiling(claim.bound)} (n = {self.n:,})."
        )

    def __str__(self) -> str:
        from curvbound.certificates.text import describe

        return describe(self)

    def __repr__(self) -> str:
        return f"<Certificate: {self.sentence}>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def network(self, predictor: Literal["randomised", "drawn"] = "randomised") -> nn.Module:
        """The certified predictor itself, in evaluation mode.

        Args:
            predictor: ``"randomised"`` draws weights for every prediction; ``"drawn"`` is the one
                deterministic network of the claim about one drawn network.
        """
        if self._model is None:
            raise CurvboundError(
                "The certificate knows the weights but not the code of the network: load it with "
                "Certificate.load(path, model=your_network)."
            )
        if self.posterior is None:
            return copy.deepcopy(self._model)
        if predictor == "randomised":
            return RandomisedNetwork(self._model, self.posterior)
        assert self.prior is not None  # a posterior never comes without one
        hashes = (self.prior.hash, self.posterior.hash, self.record.data.hash)
        return drawn_network(self._model, self.posterior, hashes)

    def save(self, path: str | Path) -> Path:
        """Write the record as JSON and the tensors as safetensors beside it."""
        return write_certificate(Path(path), self.record, self.prior, self.posterior)

    @classmethod
    def load(cls, path: str | Path, model: nn.Module | None = None) -> "Certificate":
        """Read a certificate back, checking its form and the hash of its tensors.

        Args:
            path: The JSON file.
            model: The network it is about (any weights); not needed for the networks of
                ``curvbound.networks``. Code named in the file is never imported.
        """
        record, prior, posterior = read_certificate(Path(path))
        return cls(record, prior=prior, posterior=posterior, model=_architecture(record, model))


def _architecture(record: Record, model: nn.Module | None) -> nn.Module | None:
    if model is None and record.network is not None:
        from curvbound.networks import build

        model = build(**record.network)
    if model is None:
        return None
    from curvbound.certificates.preparation import prepare

    with torch.no_grad():
        return prepare(model, model, "the network").model
