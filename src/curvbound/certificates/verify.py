"""Check a certificate again, without trusting who issued it."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from curvbound.certificates.architecture import network_of, rebuild
from curvbound.certificates.certificate import Certificate
from curvbound.certificates.preparation import prepare
from curvbound.certificates.recompute import PacBayes, check_holdout_record
from curvbound.certificates.record import PRIOR_NETWORK, Record
from curvbound.certificates.rerun import Rerun, find_bound_data, recount, require_sizes
from curvbound.certificates.storage import Stored, read_certificate, state_hash
from curvbound.certificates.verification import Check, Verification, checked, not_checked
from curvbound.datasets import Examples
from curvbound.errors import CurvboundError
from curvbound.gaussians import Gaussian

__all__ = ["verify"]

_SAME_DRAW = 1e-6
"""Relative room for an initialisation drawn on another machine."""

_NEED_DATA = (
    "the Monte Carlo and the errors of the drawn network need the data of the bound: give data"
)
_NEED_NETWORK = (
    "running the network needs its code, which the certificate does not have: give model"
)


def verify(
    certificate: str | Path | Certificate, *, model: nn.Module | None = None, data: Any = None
) -> Verification:
    """Check a certificate again.

    Without data: form, hashes, KL from the stored tensors, charges, limits, every bound, and the
    prior mean where it is a named initialisation. With the data (and the network, if it is none of
    ``curvbound.networks``) also the counts: with the seed that follows from the content, and with
    fresh draws, which accuse a correct certificate once in a million times.

    Args:
        certificate: A JSON file with its tensors beside it, or a certificate.
        model: The network (any weights). Code named in the file is never imported.
        data: The data of the bound, or the data set whose split they are part of.

    Raises:
        CurvboundError: If the file is not a certificate or model or data cannot be used at all. A
            wrong certificate does not raise: ``.ok`` is False and the failed check is named.
    """
    stored, network = _read(certificate, model)
    record = stored.record
    checks = [_tensors_file(certificate, stored)]
    if record.prior is None:
        checks += _check_holdout_certificate(stored, network, data)
    else:
        checks += _check_pac_bayes(stored, network, data)
    sentence = Certificate(record).sentence
    return Verification(sentence, tuple(checks), _beyond(record))


def _read(
    certificate: str | Path | Certificate, model: nn.Module | None
) -> tuple[Stored, nn.Module | None]:
    if isinstance(certificate, Certificate):
        own = certificate._model
        alone = own is not None and certificate.posterior is None
        state = own.state_dict() if own is not None and alone else None
        stored = Stored(certificate.record, certificate.prior, certificate.posterior, state)
        model = own if model is None else model
    else:
        stored = read_certificate(Path(certificate))
    record = stored.record
    return stored, network_of(record.network, model, stored.posterior, stored.network)


def _tensors_file(certificate: Any, stored: Stored) -> Check:
    name = "tensors file"
    if isinstance(certificate, Certificate):
        return not_checked(name, "the certificate was not read from a file")
    if stored.record.tensors is None:
        return not_checked(name, "there is none: the certificate was saved without its network")
    if not stored.intact:
        return Check(
            name, "failed", "The safetensors file is not the one issued: its hash differs."
        )
    return Check(name, "passed", "the safetensors file has the recorded hash")


def _check_pac_bayes(stored: Stored, network: nn.Module | None, data: Any) -> list[Check]:
    record, prior, posterior = stored.record, stored.prior, stored.posterior
    if prior is None or posterior is None:
        return [Check("form", "failed", "The prior or the posterior is missing.")]
    try:
        parts = PacBayes(record, prior, posterior)
    except CurvboundError as error:
        return [Check("form", "failed", str(error))]
    checks = [Check("form", "passed", "prior, posterior, counts and the three claims are there")]
    checks += parts.checks()
    if record.holdout is not None:
        checks.append(checked("hold-out bound", lambda: check_holdout_record(record)))
        if record.holdout.about != PRIOR_NETWORK:
            why = "the held-out data and that network are not part of the certificate"
            checks.append(not_checked("errors behind the hold-out bound", why))
    if record.prior is not None and record.prior.source == "initialisation":
        checks.append(_initialisation(record, prior))
    if record.mean_moved:
        why = "the user's own network is not part of the certificate"
        checks.append(not_checked("agreement with the user's network", why))
    return checks + _run_again(parts, network, data)


def _run_again(parts: PacBayes, network: nn.Module | None, data: Any) -> list[Check]:
    name = "data"
    if data is None:
        return [not_checked(name, "no data were given"), not_checked("counts", _NEED_DATA)]
    try:
        bound_data, prior_data = find_bound_data(data, parts.record)
        found = Check(name, "passed", require_sizes(parts.record, bound_data))
    except CurvboundError as error:
        return [Check(name, "failed", str(error)), not_checked("counts", _NEED_DATA)]
    if network is None:
        return [found, not_checked("counts", _NEED_NETWORK)]
    return [found, *Rerun(parts, network, bound_data, prior_data).checks()]


def _initialisation(record: Record, prior: Gaussian) -> Check:
    name = "initialisation"
    specification = None if record.prior is None else record.prior.specification
    if specification is None:
        why = "the prior mean was given as weights, not as a network of the list with its seed"
        return not_checked(name, why)

    def drawn_again() -> str:
        built = rebuild(specification)
        start = prepare(built, built, "the initialisation").start
        shapes = {key: tensor.shape for key, tensor in prior.mean.items()}
        if {key: tensor.shape for key, tensor in start.items()} != shapes:
            raise CurvboundError("The named initialisation has other parameters than the prior.")
        for key, tensor in start.items():
            stored = prior.mean[key].to(tensor)
            room = _SAME_DRAW * float(tensor.abs().max())
            if not torch.allclose(stored, tensor, rtol=0.0, atol=room):
                raise CurvboundError(f"The prior mean of '{key}' is not what its seed draws.")
        return f"{specification.get('name')} with seed {specification.get('seed')} gives the mean"

    return checked(name, drawn_again)


def _check_holdout_certificate(stored: Stored, network: nn.Module | None, data: Any) -> list[Check]:
    record = stored.record
    checks = [checked("hold-out bound", lambda: check_holdout_record(record))]
    if stored.network is None:
        checks.append(not_checked("network hash", "the certificate was saved without its network"))
    else:
        same = state_hash(stored.network) == record.network_hash
        sentence = "the stored network has the recorded hash" if same else "another hash"
        checks.append(Check("network hash", "passed" if same else "failed", sentence))
    if data is None:
        return [*checks, not_checked("data", "no data were given")]

    def recognised() -> Examples:
        return find_bound_data(data, record)[0]

    checks.append(checked("data", lambda: require_sizes(record, recognised())))
    if network is None:
        return [*checks, not_checked("errors of the network", _NEED_NETWORK)]
    if checks[-1].status == "passed" and record.holdout is not None:
        errors = record.holdout.errors
        name = "errors of the network"
        checks.append(checked(name, lambda: recount(name, network, recognised(), errors)))
    return checks


def _beyond(record: Record) -> tuple[str, ...]:
    independent = "that the examples are independent draws from the distribution of interest"
    if record.prior is None:
        return (
            independent,
            "that the network was trained and chosen without looking at the held-out data",
        )
    chosen = {
        "initialisation": "that the prior was chosen before anybody looked at the data",
        "disjoint data": "that the prior was trained on the prior data alone",
    }
    tried = 1 if record.union is None else record.union.tried
    return (
        independent,
        chosen[record.prior.source],
        f"that no more than {tried} priors were looked at on these data",
        "that architecture, frozen parameters and input scaling were not fitted to these data",
        "that this certificate is not the best of several that were issued",
    )
