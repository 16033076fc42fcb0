"""The report of a certificate: a single HTML file without any outside resource."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from curvbound.certificates.certificate import Certificate
    from curvbound.certificates.verification import Verification

__all__ = ["write_report"]

_TITLES = {"certificate": "Certificate", "data-free": "Data-free prior"}


def write_report(
    path: str | Path,
    certificates: Mapping[str, "Certificate"],
    checks: Mapping[str, "Verification"] | None = None,
) -> Path:
    """Write the certificates, the main one first, and what verifying them found.

    Args:
        path: The HTML file.
        certificates: By the name of their file without ending.
        checks: The verification of each, under the same name.
    """
    from jinja2 import Environment, StrictUndefined

    from curvbound.certificates.rounding import ceiling

    source = files("curvbound.report").joinpath("report.html.jinja").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    sections = [
        _section(name, certificate, (checks or {}).get(name))
        for name, certificate in certificates.items()
    ]
    page = environment.from_string(source).render(sections=sections, ceiling=ceiling)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def _section(
    name: str, certificate: "Certificate", verification: "Verification | None"
) -> dict[str, Any]:
    from curvbound.certificates.text import advice

    record = certificate.record
    return {
        "name": name,
        "title": _TITLES.get(name, name),
        "sentence": certificate.sentence,
        "others": [certificate.sentence_of(claim) for claim in record.claims[1:]],
        "vacuous": certificate.vacuous,
        "advice": advice(certificate),
        "delta": certificate.delta,
        "bars": _waterfall(record.looseness),
        "bound": certificate.bound,
        "chance": certificate.chance,
        "layers": _shares(record.kl_layers),
        "holdout": record.holdout,
        "record": record,
        "verification": verification,
    }


def _waterfall(parts: Mapping[str, float]) -> list[dict[str, Any]]:
    """Each source of the bound as a bar that begins where the one before ended."""
    bars, start = [], 0.0
    for source, value in parts.items():
        bars.append({"source": source, "value": value, "left": start, "width": max(value, 0.0)})
        start += value
    return bars


def _shares(layers: Mapping[str, float]) -> list[tuple[str, float, float]]:
    total = sum(layers.values()) or 1.0
    return [(name, nats, nats / total) for name, nats in layers.items()]
