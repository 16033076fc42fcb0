"""Checks not already seen through the bounds that use them."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curvbound.bounds._checks import check_count, check_risk, check_weights, unit_array
from curvbound.errors import CurvboundError


@given(st.integers(1, 200))
def test_equal_weights_sum_to_at_most_one(size):
    assert sum(map(Fraction, check_weights(None, size, "the grid"))) <= 1
    assert sum(map(Fraction, check_weights([1.0 / size] * size, size, "the grid"))) <= 1


def test_weights_below_one_are_kept():
    assert check_weights([0.5, 0.25], 2, "the grid") == [0.5, 0.25]


def test_numpy_numbers_are_numbers():
    assert check_count(np.int64(7)) == 7
    assert check_risk(np.float32(0.5)) == 0.5
    assert isinstance(check_risk(np.array(0.5)), float)


@pytest.mark.parametrize("value", [object(), "0.5", b"0.5", [[0.1], [0.2, 0.3]], 1j])
def test_what_is_no_number_is_named(value):
    with pytest.raises(CurvboundError, match="risk must be a number"):
        unit_array(value, "risk")
