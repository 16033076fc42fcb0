import json

import pytest

from curvbound import CurvboundError
from curvbound.certificates.verification import Check, Verification, checked, not_checked


def refuse():
    raise CurvboundError("The sum is wrong.")


def test_a_check_passes_fails_or_notes():
    assert checked("sum", lambda: "adds up") == Check("sum", "passed", "adds up")
    assert checked("sum", refuse) == Check("sum", "failed", "The sum is wrong.")
    note = Check("sum", "noted", "almost")
    assert checked("sum", lambda: note) is note
    assert not_checked("sum", "no numbers").status == "not checked"


def result(*statuses):
    checks = tuple(Check(f"check {i}", s, "found") for i, s in enumerate(statuses))
    return Verification("The claim.", checks, ("that nobody lied",))


def test_only_failures_make_it_fail():
    assert result("passed", "noted", "not checked").ok
    found = result("passed", "failed", "failed")
    assert not found.ok
    assert [check.name for check in found.failed] == ["check 1", "check 2"]
    assert found.verdict == "The certificate FAILS: check 1, check 2."
    assert "1 could not be made" in result("passed", "not checked").verdict


def test_it_can_be_printed_searched_and_stored():
    found = result("passed", "failed")
    assert found["check 1"].status == "failed"
    with pytest.raises(KeyError):
        found["check 9"]
    text = str(found)
    assert text.startswith("The claim.")
    assert "that nobody lied" in text
    stored = json.loads(json.dumps(found.to_json()))
    assert stored["ok"] is False
    assert stored["checks"][0] == {"name": "check 0", "status": "passed", "sentence": "found"}
    assert stored["beyond"] == ["that nobody lied"]
