"""Charges of union bounds."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

from curvbound.bounds import (
    LogGrid,
    finite_grid_charge,
    log_grid_charge,
    total_charge,
    tried_charge,
)
from curvbound.errors import CurvboundError


@given(st.integers(1, 10**12))
def test_charges_are_logarithms_rounded_up(count):
    with mp.workdps(50):
        log = mp.log(count)
        weight = 2 * log + mp.log(mp.pi**2 / 6)
    slack = 1 + mpf(2) ** -49
    assert log <= tried_charge(count) <= log * slack
    assert tried_charge(count) == finite_grid_charge(count)
    assert weight <= log_grid_charge(count) <= weight * slack


def test_charges_of_the_log_grid_keep_the_weights_below_one():
    grid = LogGrid()
    weights = sum(math.exp(-grid.charge(j)) for j in range(1, 100_000))
    assert 0.9999 < weights < 1.0  # the rest of the series is about 6e-6


def test_weighted_finite_grid():
    weights = [0.5, 0.25, 0.25]
    charges = [finite_grid_charge(3, weights=weights, index=i) for i in range(3)]
    assert charges == pytest.approx([math.log(2.0), math.log(4.0), math.log(4.0)], rel=1e-14)
    assert finite_grid_charge(1) == finite_grid_charge(1, weights=[1.0]) == 0.0


@given(st.integers(2, 60))
def test_equal_weights_may_be_written_out(size):
    # in binary they may sum to slightly more than 1; then they are shrunk, never refused
    charges = [finite_grid_charge(size, weights=[1.0 / size] * size, index=i) for i in range(size)]
    assert sum(Fraction(math.exp(-charge)) for charge in charges) < 1 + Fraction(1, 10**14)
    assert all(charge == pytest.approx(math.log(size), rel=1e-13) for charge in charges)


def test_charges_of_layers_and_tries_add():
    charges = [log_grid_charge(3), log_grid_charge(17), tried_charge(1000)]
    exact = sum(map(Fraction, charges))
    assert exact <= Fraction(total_charge(charges)) <= exact * (1 + Fraction(1, 2**51))
    assert total_charge([]) == 0.0
    assert total_charge(charges[:1]) == charges[0]
    assert tried_charge(1000) == pytest.approx(6.9, abs=0.01)


def test_log_grid_scales():
    grid = LogGrid(precision=100.0, largest=0.1)
    assert grid.scale(36) == pytest.approx(0.1 * math.exp(-0.36), rel=1e-15)
    for j in (1, 2, 36, 264, 10_000):
        assert grid.neighbours(grid.scale(j)) == (j,)
    assert grid.neighbours(0.1 * math.exp(-0.365)) == (36, 37)


def test_choice_between_floor_and_ceil_weighs_kl_and_charge():
    grid = LogGrid(precision=1.0, largest=1.0)
    between = math.exp(-2.4)
    assert grid.neighbours(between) == (2, 3)
    assert grid.choose(between, lambda scale: 0.0) == 2  # the smaller j is cheaper
    assert grid.choose(between, lambda scale: 100.0 * scale) == 3
    step = grid.charge(3) - grid.charge(2)
    assert grid.choose(between, lambda scale: 0.99 * step if scale > 0.1 else 0.0) == 2
    assert grid.choose(between, lambda scale: 1.01 * step if scale > 0.1 else 0.0) == 3


@pytest.mark.parametrize("scale", [0.1, 0.0995, 0.2, 1e9])
def test_scales_without_weight_are_refused(scale):
    with pytest.raises(CurvboundError, match="no weight in the union bound"):
        LogGrid().neighbours(scale)
    with pytest.raises(CurvboundError, match="no weight in the union bound"):
        LogGrid().choose(scale, lambda _: 0.0)


@pytest.mark.parametrize("j", [0, -1, 0.5, 1.0, True])
def test_grid_index_starts_at_one(j):
    for call in (log_grid_charge, LogGrid().charge, LogGrid().scale):
        with pytest.raises(CurvboundError, match="whole number of at least 1"):
            call(j)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: finite_grid_charge(0), "size of the grid"),
        (lambda: finite_grid_charge(3, index=3), "outside a grid"),
        (lambda: finite_grid_charge(2, weights=[0.7, 0.4]), "at most 1"),
        (lambda: finite_grid_charge(2, weights=[0.7]), "one weight per value"),
        (lambda: finite_grid_charge(2, weights=[1.0, 0.0]), "must be positive"),
        (lambda: tried_charge(0), "tried must be a whole number"),
        (lambda: tried_charge(1.5), "tried must be a whole number"),
        (lambda: total_charge([-1.0]), "a charge must not be negative"),
        (lambda: LogGrid(precision=0.0), "precision must be positive"),
        (lambda: LogGrid(largest=-1.0), "largest must be positive"),
        (lambda: LogGrid().neighbours(0.0), "prior scale must be positive"),
        (lambda: LogGrid().neighbours(math.nan), "prior scale is NaN"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(CurvboundError, match=message):
        call()
