"""A certificate in words: the claim, the ledger, where the looseness sits, what to do next."""

from typing import TYPE_CHECKING

from curvbound.certificates.record import Record
from curvbound.certificates.rounding import ceiling, floor_percent

if TYPE_CHECKING:
    from curvbound.certificates.certificate import Certificate

__all__ = ["advice", "describe"]


def describe(certificate: "Certificate") -> str:
    """All that ``print(cert)`` shows."""
    record = certificate.record
    lines = [certificate.sentence]
    lines += [f"  also: {certificate.sentence_of(claim)}" for claim in record.claims[1:]]
    spent = ", ".join(f"{event} {amount!r}" for event, amount in certificate.delta.items())
    lines.append(f"  delta: {spent}")
    if record.prior is not None:
        lines.append(_prior_line(record))
    if record.looseness:
        lines.append("  where the bound comes from:")
        lines += [f"    {value:8.4f}  {source}" for source, value in record.looseness.items()]
    if record.agreement is not None:
        moved = "was moved" if record.mean_moved else "is your network"
        lines.append(
            f"  the posterior mean {moved}; they agree on {floor_percent(record.agreement)} of the "
            "data"
        )
    if record.data.repeated_rows:
        lines.append(
            f"  look: {record.data.repeated_rows:,} bound examples equal rows the prior has seen; "
            "if they are the same observations, and not repetitions, the bound is void"
        )
    if record.holdout is not None:
        held = record.holdout
        lines.append(
            f"  beside it: plain hold-out bound {ceiling(held.bound)} for {held.about} "
            f"({held.errors} errors on {held.examples:,} examples)"
        )
    lines += [f"  next: {sentence}" for sentence in advice(certificate)]
    return "\n".join(lines)


def advice(certificate: "Certificate") -> list[str]:
    """What would help a bound that guessing would meet too."""
    if not certificate.vacuous:
        return []
    hints = ["the bound is not below chance; it is true but says little"]
    parts = certificate.record.looseness
    divergence = sum(value for name, value in parts.items() if name.startswith("KL of"))
    if divergence > 0.5 * (certificate.bound - parts.get("empirical risk", 0.0)):
        hints.append("the weights moved far from the prior: train for fewer epochs or on a split")
    hints.append("more data, or a prior from disjoint data (train= or prior=), tightens it most")
    return hints


def _prior_line(record: Record) -> str:
    assert record.prior is not None
    charge = 0.0 if record.union is None else record.union.charge
    return (
        f"  prior: {record.prior.source}; KL {ceiling(record.claims[0].nats, 1)} nats, "
        f"{ceiling(charge, 1)} nats for choosing its scales and for what was tried"
    )
