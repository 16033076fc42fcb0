"""PAC-Bayes bounds of the form "empirical risk and complexity give true risk".

All of them say: with probability at least 1 - delta over n independent examples, for ALL posteriors
Q at once, the expected true risk of Q is at most the returned value. The loss lies in [0, 1] and
the prior P was fixed without looking at the examples (or the choice is paid for in ``charge``; see
:mod:`curvbound.bounds.unions`). ``risk`` is the exact empirical risk of Q or an upper confidence
limit of it (:mod:`curvbound.bounds.monte_carlo`), ``kl`` is KL(Q || P).

Results are rounded up at every step and never exceed 1.
"""

import math
from collections.abc import Sequence
from typing import SupportsIndex

from curvbound.bounds._budget import Constant, budget, log_inverse
from curvbound.bounds._checks import (
    check_count,
    check_delta,
    check_nonnegative,
    check_positive,
    check_risk,
    check_weights,
)
from curvbound.bounds._rounding import add_up, divide_up, multiply_up, sqrt_up, sum_up, up
from curvbound.bounds.kl_inverse import kl_inverse

__all__ = ["catoni", "complexity", "mcallester", "pac_bayes_kl", "pinsker"]


_SQRT_HALF = 0.7071067811865476  # sqrt(1/2) = 0.70710678118654752..., rounded up


def complexity(
    kl: float,
    n: SupportsIndex,
    delta: float,
    *,
    constant: Constant = "maurer",
    charge: float = 0.0,
) -> float:
    """Return the budget c such that kl(risk || true risk) <= c, rounded up.

    ==========  ==================================  =======================================
    constant    c                                   source
    ==========  ==================================  =======================================
    "maurer"    (KL + ln(2 sqrt(n)/delta)) / n      Maurer-Seeger
    "exact"     (KL + ln(xi(n)/delta)) / n          the same before xi(n) <= 2 sqrt(n)
    "000"       (KL + ln(2(n-1)/delta)) / n         000 eq. 3, n >= 3 (000-E6)
    "001"       (KL + ln(n/delta)) / (n-1)          001 eq. 9, n >= 2 (001-E17)
    ==========  ==================================  =======================================

    Args:
        kl: KL(Q || P) in nats; infinity is allowed and gives infinity.
        n: Number of examples the empirical risk was measured on.
        delta: Probability with which the statement may fail.
        constant: Which of the forms above.
        charge: Nats to pay for choosing the prior, ln(1/weight); added to ``kl``.

    >>> complexity(4612.6, 60000, 0.025, constant="001", charge=7.66489) < 0.077251
    True
    """
    kl = check_nonnegative(kl, "kl")
    return budget(kl, n, delta, constant=constant, charge=charge)


def pinsker(risk: float, budget: float) -> float:
    """Return min(1, risk + sqrt(budget/2)), which is never below ``kl_inverse(risk, budget)``.

    >>> pinsker(0.1, 0.02)
    0.20000000000000007
    """
    risk, budget = check_risk(risk), check_nonnegative(budget, "budget")
    # The root is taken before halving, since half of the smallest float is 0.
    return min(1.0, add_up(risk, multiply_up(sqrt_up(budget), _SQRT_HALF)))


def pac_bayes_kl(
    risk: float,
    kl: float,
    n: SupportsIndex,
    delta: float,
    *,
    constant: Constant = "maurer",
    charge: float = 0.0,
) -> float:
    """Return the kl form of the PAC-Bayes bound, the tightest of the closed forms here.

    kl_inverse(risk, (KL + ln(2 sqrt(n)/delta))/n) by default; :func:`complexity` lists the other
    constants. ``constant="001"`` is 001 eq. 9.

    >>> round(pac_bayes_kl(0.03, 5000, 55000, 0.05), 4)
    0.1618
    """
    risk = check_risk(risk)
    return kl_inverse(risk, complexity(kl, n, delta, constant=constant, charge=charge))


def mcallester(
    risk: float,
    kl: float,
    n: SupportsIndex,
    delta: float,
    *,
    constant: Constant = "maurer",
    charge: float = 0.0,
) -> float:
    """Return risk + sqrt((KL + ln(2 sqrt(n)/delta))/(2n)), at most 1.

    ``constant="000"`` has ln(2(n-1)/delta) instead and is 000 eq. 3, proved for n >= 3 (000-E6);
    :func:`complexity` lists all constants. Never below :func:`pac_bayes_kl` with the same ones.

    >>> round(mcallester(0.03, 5000, 55000, 0.05), 4)
    0.2434
    >>> round(mcallester(0.03, 5000, 55000, 0.05, constant="000"), 4)
    0.2435
    """
    return pinsker(risk, complexity(kl, n, delta, constant=constant, charge=charge))


def catoni(
    risk: float,
    kl: float,
    n: SupportsIndex,
    delta: float,
    *,
    grid: Sequence[float],
    weights: Sequence[float] | None = None,
    charge: float = 0.0,
) -> float:
    """Return the smallest Catoni bound over a grid of parameters written down before the data.

    For one fixed C > 0 the bound is (1 - exp(-C risk - (KL + ln(1/delta))/n)) / (1 - exp(-C)).
    The grid point C_j is given the share weight_j of delta, hence ln(1/weight_j) more nats, and the
    minimum over the grid holds with probability 1 - delta.

    Args:
        risk: Empirical risk of Q.
        kl: KL(Q || P) in nats.
        n: Number of examples.
        delta: Probability with which the statement may fail.
        grid: The values of C. They must not depend on the examples.
        weights: Shares of delta, together at most 1; equal by default.
        charge: Nats to pay for choosing the prior.

    >>> round(catoni(0.03, 5000, 55000, 0.05, grid=[0.5, 1.0, 2.0, 4.0]), 4)
    0.1621
    """
    risk, kl = check_risk(risk), check_nonnegative(kl, "kl")
    charge, n, delta = check_nonnegative(charge, "charge"), check_count(n), check_delta(delta)
    parameters = [check_positive(value, "a value of the Catoni grid") for value in grid]
    shares = check_weights(weights, len(parameters), "the Catoni grid")
    best = 1.0
    for parameter, share in zip(parameters, shares, strict=True):
        nats = sum_up((kl, charge, log_inverse(delta), log_inverse(share)))
        exponent = add_up(multiply_up(parameter, risk), divide_up(nats, n))
        numerator = up(-math.expm1(-exponent), 2)
        best = min(best, up(numerator / -math.expm1(-parameter), 3))
    return best
