import pytest
from pydantic import ValidationError

from curvbound.certificates.record import Claim, MonteCarlo, Record


def claim(**changes):
    values = {
        "about": "one drawn network",
        "bound": 0.3,
        "delta": {"one draw": 0.05},
        "risk": 0.1,
        "nats": 12.5,
    }
    return Claim(**{**values, **changes})


def carlo(**changes):
    values = {
        "independent": "example",
        "counts": [[3, 1], [2, 0]],
        "chunk": 10,
        "seed": 1,
        "methods": {},
        "limit": 0.2,
    }
    return MonteCarlo(**{**values, **changes})


def test_what_is_in_range_is_kept():
    assert claim(nats=-3.0).nats == -3.0  # a density ratio may be negative
    assert carlo().counts == [[3, 1], [2, 0]]


@pytest.mark.parametrize(
    "changes",
    [
        {"about": "the mean network"},
        {"bound": 1.1},
        {"bound": float("nan")},
        {"delta": {"one draw": 0.0}},
        {"delta": {"one draw": 1.0}},
        {"delta": {}},
        {"risk": -0.1},
        {"nats": float("inf")},
        {"extra": 1},
    ],
)
def test_claims_out_of_range_are_refused(changes):
    with pytest.raises(ValidationError):
        claim(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"counts": [[1], [1, 2]]},
        {"counts": []},
        {"counts": [[], []]},
        {"counts": [[11, 0]]},
        {"counts": [[-1, 0]]},
        {"counts": [[1.0, 0]]},
        {"chunk": 0},
        {"independent": "weight"},
    ],
)
def test_counts_that_are_no_table_are_refused(changes):
    with pytest.raises(ValidationError):
        carlo(**changes)


def test_nothing_can_be_changed_and_no_other_kind_be_stored(by_init):
    with pytest.raises(ValidationError, match="frozen"):
        by_init.record.seconds = 0.0
    content = by_init.record.model_dump()
    for kind in ("heuristic", "oracle", "conditional"):
        with pytest.raises(ValidationError):
            Record(**{**content, "kind": kind})


def test_the_schema_is_published():
    schema = Record.model_json_schema()
    assert schema["properties"]["format"]["const"] == "curvbound-certificate/1"
    assert {"Claim", "DataRecord", "HoldOut", "MonteCarlo", "PriorRecord", "Union"} <= set(
        schema["$defs"]
    )
