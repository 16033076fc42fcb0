"""The report: one file, nothing from outside, bounds rounded up, everything said."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from curvbound import certify, datasets, networks, verify
from curvbound.certificates import Certificate
from curvbound.certificates.rounding import ceiling
from curvbound.report import write_report


class Outline(HTMLParser):
    """Collects tags, open elements and attributes."""

    VOID = ("meta", "br", "link", "img", "input", "hr")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def issued() -> Certificate:
    data = datasets.load("digits")
    model = networks.build("F-10", data.shape, data.classes, seed=0)
    train = data.train.split(300, seed=0)[0]
    return certify(model, train, train="fast-small", budget="quick")


def test_report_is_one_well_formed_file_without_outside_resources(
    issued: Certificate, tmp_path: Path
) -> None:
    path = issued.save(tmp_path / "certificate.json")
    page = write_report(
        tmp_path / "report.html", {"certificate": issued}, {"certificate": verify(path)}
    )
    text = page.read_text(encoding="utf-8")
    outline = Outline()
    outline.feed(text)
    assert outline.open == []
    assert outline.links == []
    assert not re.search(r"https?://", text)
    assert issued.sentence in text
    assert ceiling(issued.holdout.bound) in text
    assert issued.record.data.hash in text
    assert "verify certificate.json" in text
    for sentence in issued.record.assumptions:
        assert sentence in text


def test_names_from_outside_are_escaped(issued: Certificate, tmp_path: Path) -> None:
    data = issued.record.data.model_copy(update={"name": "<script>alert(1)</script>"})
    forged = Certificate(issued.record.model_copy(update={"data": data}))
    text = write_report(tmp_path / "report.html", {"certificate": forged}).read_text()
    assert "<script>" not in text


def test_a_certificate_writes_its_own_report(issued: Certificate, tmp_path: Path) -> None:
    assert issued.report(tmp_path / "new" / "report.html").read_text().startswith("<!doctype html>")
