from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from curvbound.certificates.rounding import (
    ceiling,
    confidence_left,
    confidence_text,
    floor_percent,
    total_delta,
)

shares = st.floats(0.0, 1.0)
amounts = st.lists(st.floats(1e-30, 0.2), min_size=1, max_size=4)


@given(shares, st.integers(1, 6))
def test_a_printed_bound_is_never_below_and_less_than_one_digit_above(value, digits):
    shown, exact = Fraction(ceiling(value, digits)), Fraction(repr(value))
    assert exact <= shown < exact + Fraction(1, 10**digits)


def test_numbers_with_few_digits_stay_as_they_are():
    assert [ceiling(x) for x in (0.1, 0.3, 0.7, 1.0, 0.0)] == [
        "0.1000",
        "0.3000",
        "0.7000",
        "1.0000",
        "0.0000",
    ]
    assert ceiling(0.12340000000000001) == "0.1235"
    assert ceiling(float("inf"), 1) == "inf"


@given(shares)
def test_a_printed_share_is_never_above(value):
    assert Fraction(floor_percent(value).removesuffix(" %")) <= 100 * Fraction(repr(value))


@given(amounts)
def test_a_confidence_never_rounds_up(deltas):
    exact = 1 - sum(Fraction(repr(delta)) for delta in deltas)
    assert Fraction(total_delta(deltas)) == 1 - exact
    assert Fraction(repr(confidence_left(deltas))) <= exact
    assert Fraction(confidence_text(deltas).removesuffix(" %")) <= 100 * exact
    assert confidence_left(deltas) < 1.0


def test_usual_confidences_look_usual():
    assert confidence_left([0.04, 0.01]) == 0.95
    assert confidence_text([0.04, 0.01]) == "95 %"
    assert confidence_text([0.1]) == "90 %"
    assert confidence_text([0.00001]) == "99.999 %"
    assert confidence_left([0.1]) == 0.9
