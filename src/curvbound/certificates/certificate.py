"""Certificates: a record that anybody can check, with the distributions it is about."""

import copy
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, Literal

from torch import nn

from curvbound.certificates.architecture import network_of
from curvbound.certificates.claims import RandomisedNetwork, counted, drawn_network
from curvbound.certificates.record import About, Claim, HoldOut, Record
from curvbound.certificates.rounding import ceiling, confidence_left, confidence_text
from curvbound.certificates.storage import read_certificate, tensors_path, write_certificate
from curvbound.errors import CurvboundError
from curvbound.gaussians import Gaussian

__all__ = ["Certificate", "ceiling"]


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
        """One minus everything in the ledger, rounded down."""
        return confidence_left(self.claim.delta.values())

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
        return (
            f"With confidence {confidence_text(claim.delta.values())}, {claim.about} has a true "
            f"error of at most {ceiling(claim.bound)} (n = {self.n:,})."
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

    def summary(self) -> dict[str, Any]:
        """The main claim as plain numbers, ready for JSON."""
        carlo = self.record.monte_carlo
        return {
            "bound": self.bound,
            "kind": self.kind,
            "about": self.about,
            "confidence": self.confidence,
            "n": self.n,
            "kl": self.kl,
            "empirical_risk": self.empirical_risk,
            "mc_draws": 0 if carlo is None else counted(carlo, self.n).observations,
            "delta": self.delta,
            "union": None if self.record.union is None else self.record.union.model_dump(),
            "holdout": None if self.holdout is None else self.holdout.model_dump(),
            "seconds": self.record.seconds,
        }

    def report(self, path: str | Path) -> Path:
        """Write one self-contained HTML file about the certificate."""
        from curvbound.report import write_report

        return write_report(path, {"certificate": self})

    def save(self, path: str | Path) -> Path:
        """Write the record as JSON and the tensors as safetensors beside it."""
        alone = self._model is not None and self.posterior is None
        state = self._model.state_dict() if self._model is not None and alone else None
        return write_certificate(Path(path), self.record, self.prior, self.posterior, state)

    @classmethod
    def load(cls, path: str | Path, model: nn.Module | None = None) -> "Certificate":
        """Read a certificate back, checking its form and the hash of its tensors.

        Args:
            path: The JSON file.
            model: The network it is about (any weights); not needed for the networks of
                ``curvbound.networks``. Code named in the file is never imported.
        """
        stored = read_certificate(Path(path))
        if not stored.intact:
            raise CurvboundError(
                f"'{tensors_path(Path(path))}' is not the file this certificate was issued with: "
                "its hash differs."
            )
        network = network_of(stored.record.network, model, stored.posterior, stored.network)
        return cls(stored.record, prior=stored.prior, posterior=stored.posterior, model=network)
