"""The arithmetic of a record, recomputed; what is tampered with is in test_verify.py."""

import pytest

from curvbound import CurvboundError
from curvbound.certificates.recompute import PacBayes, check_holdout_record, hashes_of


@pytest.mark.parametrize("route", ["by_init", "by_split"])
def test_every_check_passes_and_says_what_it_found(request, route):
    cert = request.getfixturevalue(route)
    checks = PacBayes(cert.record, cert.prior, cert.posterior).checks()
    assert {check.status for check in checks} == {"passed"}
    assert len({check.name for check in checks}) == len(checks)
    sentences = {check.name: check.sentence for check in checks}
    assert f"{cert.bound:.6f}" in sentences["bound of the randomised network"]


def test_seeds_come_from_three_hashes(by_init):
    hashes = hashes_of(by_init.record, by_init.prior, by_init.posterior)
    assert hashes == (by_init.prior.hash, by_init.posterior.hash, by_init.record.data.hash)


@pytest.mark.parametrize(
    "part", ["union", "monte_carlo", "drawn_errors", "posterior_hash", "prior"]
)
def test_a_part_that_is_missing_is_named(by_init, part):
    record = by_init.record.model_copy(update={part: None})
    with pytest.raises(CurvboundError, match=f"lacks {part}"):
        PacBayes(record, by_init.prior, by_init.posterior)


def test_a_claim_that_is_missing_is_noticed(by_init):
    record = by_init.record.model_copy(update={"claims": by_init.record.claims[:2]})
    with pytest.raises(CurvboundError, match="one of the three claims"):
        PacBayes(record, by_init.prior, by_init.posterior)


def test_a_hold_out_bound_is_recomputed(by_heldout, by_split):
    assert "errors on 150 examples" in check_holdout_record(by_heldout.record)
    assert "errors on 200 examples" in check_holdout_record(by_split.record)


@pytest.mark.parametrize(
    "changes",
    [
        {"about": "the majority vote"},
        {"delta": {"hold-out": 0.01}},
        {"nats": 1.0},
        {"bound": 0.01},
        {"risk": 0.0},
    ],
)
def test_a_hold_out_claim_says_what_its_bound_says(by_heldout, changes):
    claim = by_heldout.claim.model_copy(update=changes)
    record = by_heldout.record.model_copy(update={"claims": [claim]})
    with pytest.raises(CurvboundError):
        check_holdout_record(record)


def test_a_record_without_a_hold_out_bound_is_refused(by_heldout):
    with pytest.raises(CurvboundError, match="no hold-out bound"):
        check_holdout_record(by_heldout.record.model_copy(update={"holdout": None}))
