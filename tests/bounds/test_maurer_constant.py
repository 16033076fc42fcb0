"""xi(n) against its definition."""

import itertools
import math
from fractions import Fraction

import pytest
from mpmath import mp, mpf

from curvbound.bounds import maurer_xi
from curvbound.errors import CurvboundError


def definition(n: int) -> Fraction:
    return sum(Fraction(math.comb(n, k) * k**k * (n - k) ** (n - k), n**n) for k in range(n + 1))


@pytest.mark.parametrize("n", [*range(1, 41), 97, 300])
def test_definition_exactly_and_from_above(n):
    exact = definition(n)
    found = Fraction(maurer_xi(n))
    assert exact <= found <= exact * (1 + Fraction(4 * (n + 3), 2**52))


@pytest.mark.parametrize("n", [2000, 9999])
def test_definition_summed_in_high_precision(n):
    with mp.workdps(40):
        log = [mpf(0), *(mp.log(k) for k in range(1, n + 1))]
        log_factorial = list(itertools.accumulate(log))
        k_log_k = [k * value for k, value in enumerate(log)]
        base = log_factorial[n] - k_log_k[n]
        half = [
            mp.exp(base - log_factorial[k] - log_factorial[n - k] + k_log_k[k] + k_log_k[n - k])
            for k in range((n + 1) // 2)
        ]
        middle = n // 2
        exact = 2 * mp.fsum(half)
        if n % 2 == 0:
            exact += mp.exp(base - 2 * log_factorial[middle] + 2 * k_log_k[middle])
    assert exact <= maurer_xi(n) <= exact * (1 + mpf(10) ** -11)


def test_printed_values():
    assert [round(maurer_xi(n), 4) for n in (1, 2, 3, 4)] == [2.0, 2.5, 2.8889, 3.2188]
    assert round(maurer_xi(55000), 1) == 294.6
    assert round(2 * math.sqrt(55000), 1) == 469.0


def test_at_most_twice_the_root_and_growing():
    for n in (*range(2, 700), 2999, 10**5, 10**7):
        assert maurer_xi(n - 1) < maurer_xi(n) <= 2.0 * math.sqrt(n)


def test_large_n_against_the_asymptotic_series():
    # Ramanujan: xi(n) = sqrt(pi n/2) + 2/3 + sqrt(pi/(288 n)) - ...
    for n in (10**7, 10**9):
        series = math.sqrt(math.pi * n / 2) + 2 / 3 + math.sqrt(2 * math.pi / n) / 24
        assert maurer_xi(n) == pytest.approx(series, rel=3e-10)
        assert maurer_xi(n) >= series * (1 - 1e-13)


@pytest.mark.parametrize("n", [0, -1, 2.5, math.nan, "7"])
def test_bad_n_is_named(n):
    with pytest.raises(CurvboundError, match="n must be a whole number"):
        maurer_xi(n)
