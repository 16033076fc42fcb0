"""The delta ledger."""

import json
import math
from collections.abc import Mapping
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curvbound.bounds import DeltaLedger
from curvbound.errors import CurvboundError


def test_parts_add_up_to_the_stated_delta():
    ledger = DeltaLedger(0.035)
    assert ledger.spend("PAC-Bayes", 0.025) == 0.025
    assert ledger.spend("Monte Carlo", 0.01) == 0.01  # in binary these two sum to more than 0.035
    assert ledger.remaining == 0.0
    assert math.fsum(ledger.values()) == pytest.approx(ledger.total, rel=1e-15)


def test_it_is_a_mapping_in_the_order_of_spending():
    ledger = DeltaLedger(0.1)
    ledger.spend("b", 0.01)
    ledger.spend("a", 0.02)
    assert isinstance(ledger, Mapping)
    assert dict(ledger) == {"b": 0.01, "a": 0.02}
    assert list(ledger) == ["b", "a"]
    assert len(ledger) == 2
    assert ledger["a"] == 0.02
    assert "c" not in ledger
    assert "0.02" in repr(ledger)


def test_it_refuses_to_spend_more_than_it_has_and_stays_as_it_was():
    ledger = DeltaLedger(0.05)
    ledger.spend("first", 0.03)
    for amount in (0.020000000000000004, 0.03, 0.9):
        with pytest.raises(CurvboundError, match="is left"):
            ledger.spend("second", amount)
    assert dict(ledger) == {"first": 0.03}
    assert ledger.remaining == 0.02
    ledger.spend("second", 0.02)


def test_it_refuses_to_pay_an_event_twice():
    ledger = DeltaLedger(0.05)
    ledger.spend("Monte Carlo", 0.01)
    with pytest.raises(CurvboundError, match="already paid"):
        ledger.spend("Monte Carlo", 0.01)


def test_an_empty_ledger_has_nothing_to_spend():
    ledger = DeltaLedger(0.05)
    assert ledger.spend_rest("all") == 0.05
    for spend in (lambda: ledger.spend_rest("more"), lambda: ledger.spend("more", 1e-300)):
        with pytest.raises(CurvboundError):
            spend()


@given(st.floats(1e-6, 0.5), st.lists(st.floats(0.01, 0.99), max_size=6))
def test_spending_parts_and_the_rest_never_exceeds_the_total(total, parts):
    ledger = DeltaLedger(total)
    for i, part in enumerate(parts):
        ledger.spend(f"event {i}", part * ledger.remaining)
    ledger.spend_rest("rest")
    exact = sum(Decimal(repr(amount)) for amount in ledger.values())
    assert exact <= Decimal(repr(total))
    assert ledger.remaining <= 2 * math.ulp(total)


def test_json_round_trip():
    ledger = DeltaLedger(0.05)
    ledger.spend("PAC-Bayes", 0.04)
    record = json.loads(json.dumps(ledger.to_json()))
    assert record == {"total": 0.05, "events": {"PAC-Bayes": 0.04}}
    again = DeltaLedger.from_json(record)
    assert again == ledger
    assert again.remaining == ledger.remaining


@pytest.mark.parametrize(
    "record",
    [
        {"total": 0.05, "events": {"a": 0.04, "b": 0.02}},
        {"total": 0.05, "events": {"a": -0.04}},
        {"total": 1.5, "events": {}},
        {"total": 0.05, "events": {"a": "0.04"}},
        {"total": None, "events": {}},
        {"total": 0.05, "events": 3},
        {"total": 0.05, "events": {"": 0.01}},
        {"events": {}},
        [],
        None,
    ],
)
def test_false_records_are_refused(record):
    with pytest.raises(CurvboundError):
        DeltaLedger.from_json(record)


@pytest.mark.parametrize("total", [0.0, 1.0, -0.1, math.nan, "0.05", [0.05]])
def test_bad_totals_are_named(total):
    with pytest.raises(CurvboundError, match="delta"):
        DeltaLedger(total)
