"""Upper confidence limits for an empirical risk that was itself estimated by sampling.

The empirical risk of a randomised network is an average over its weights. What a bound may use is
an upper limit that holds with probability 1 - delta over the draws; that delta is spent in addition
to the delta of the bound. The draws are independent, each gives a number in [0, 1], and how many
there are was fixed in advance. What counts as ONE draw:

* one weight sample evaluated on all examples (shared draws): n = number of weight samples;
* one example with a weight sample of its own: n = examples times passes;
* one batch with a weight sample of its own, all batches equally large: n = number of batches.

Limits are rounded up and never exceed 1.
"""

import math
from typing import SupportsIndex

from numpy.typing import ArrayLike

from curvbound.bounds._budget import log_inverse
from curvbound.bounds._checks import (
    check_count,
    check_delta,
    check_errors,
    check_risk,
    unit_array,
)
from curvbound.bounds._rounding import add_up, divide_up, log_up, multiply_up, sqrt_up, sum_up, up
from curvbound.bounds.kl_inverse import kl_inverse
from curvbound.errors import CurvboundError

__all__ = ["empirical_bernstein_limit", "error_rate", "kl_chernoff_limit", "monte_carlo_limit"]


def error_rate(errors: SupportsIndex, trials: SupportsIndex) -> float:
    """Return errors/trials, rounded up where the quotient is not a float.

    >>> error_rate(1, 4), error_rate(0, 7)
    (0.25, 0.0)
    """
    errors, trials = check_errors(errors, trials)
    value = errors / trials
    numerator, denominator = value.as_integer_ratio()
    return value if numerator * trials >= errors * denominator else up(value)


def kl_chernoff_limit(
    mean: float,
    draws: SupportsIndex,
    delta: float,
    *,
    candidates: SupportsIndex = 1,
    two_sided: bool = False,
) -> float:
    """Return kl_inverse(mean, ln(1/delta)/draws), an upper limit for the expected mean.

    It needs independent draws in [0, 1], not identically distributed ones (Hoeffding): the mean of
    their expectations is what is bounded.

    Args:
        mean: Mean of the draws, for instance from :func:`error_rate`.
        draws: How many independent draws there were.
        delta: Probability with which the limit may fail.
        candidates: How many posteriors were estimated before the best one was picked; their limits
            hold together for ln(candidates/delta). Fresh draws for the winner need no such charge.
        two_sided: Use ln(2/delta) as 001 does, which pays for a lower limit as well.

    >>> round(kl_chernoff_limit(0.03, 5, 0.01), 3)
    0.659
    """
    mean, draws = check_risk(mean, "mean"), check_count(draws, "draws")
    nats = _nats(delta, candidates, 2.0 if two_sided else 1.0)
    return kl_inverse(mean, divide_up(nats, draws))


def empirical_bernstein_limit(
    values: ArrayLike, delta: float, *, candidates: SupportsIndex = 1
) -> float:
    """Return mean + sqrt(2 V ln(2/delta)/n) + 7 ln(2/delta)/(3(n-1)), at most 1.

    V is the sample variance with n - 1 in the denominator (Maurer and Pontil). Draws that vary
    little, as whole-network risks of shared weight draws do, make it the smaller limit from some
    hundred draws on; single errors, which are 0 or 1, favour the kl-Chernoff limit.

    Args:
        values: The draws themselves, at least two numbers in [0, 1].
        delta: Probability with which the limit may fail.
        candidates: As in :func:`kl_chernoff_limit`.

    >>> round(empirical_bernstein_limit([0.1, 0.12] * 500, 0.05), 4)
    0.1195
    """
    mean, squares, n = _moments(values)
    nats = _nats(delta, candidates, 2.0)
    variance = divide_up(squares, n - 1)
    spread = sqrt_up(divide_up(multiply_up(2.0 * variance, nats), n))
    bias = divide_up(multiply_up(7.0, nats), 3.0 * (n - 1))
    return min(1.0, add_up(mean, add_up(spread, bias)))


def monte_carlo_limit(values: ArrayLike, delta: float, *, candidates: SupportsIndex = 1) -> float:
    """Return the smaller of the two limits, each at delta/2, so that the choice is paid for.

    >>> round(monte_carlo_limit([0.0, 1.0, 0.0, 0.0, 0.0], 0.05), 4)
    0.7731
    """
    delta = check_delta(delta)
    mean, _, n = _moments(values)
    return min(
        kl_chernoff_limit(mean, n, delta / 2.0, candidates=candidates),
        empirical_bernstein_limit(values, delta / 2.0, candidates=candidates),
    )


def _nats(delta: float, candidates: SupportsIndex, numerator: float) -> float:
    """Return ln(numerator * candidates / delta), rounded up."""
    delta, candidates = check_delta(delta), check_count(candidates, "candidates")
    return sum_up((log_inverse(delta), log_up(candidates), log_up(numerator)))


def _moments(values: ArrayLike) -> tuple[float, float, int]:
    """Return mean and sum of squared deviations, both rounded up, and the number of values."""
    array = unit_array(values, "values")
    if array.ndim != 1 or array.size < 2:
        raise CurvboundError(
            f"values must be a row of at least two draws, but has shape {array.shape}; "
            "draw more weights."
        )
    n = array.size
    mean = divide_up(up(math.fsum(array)), n) if array.any() else 0.0
    # Deviations from any centre have at least the sum of squares of those from the mean.
    squares = math.fsum((array - mean) ** 2)
    return min(1.0, mean), up(squares, 8), n
