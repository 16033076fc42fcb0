"""Bounds for ONE fixed network from examples it never saw. No prior, no posterior, no KL.

The network must not depend on the held-out examples in any way, their selection included. Results
are rounded up.
"""

from typing import SupportsIndex

from curvbound.bounds._checks import check_delta, check_errors
from curvbound.bounds._rounding import up
from curvbound.bounds.monte_carlo import error_rate, kl_chernoff_limit

__all__ = ["chernoff", "clopper_pearson"]

# The incomplete beta function of scipy is right to a relative 1e-12 in our trials (n up to 3e7);
# the root is accepted where it has certainly fallen below delta.
_BETA_ACCURACY = 1e-11


def clopper_pearson(errors: SupportsIndex, n: SupportsIndex, delta: float) -> float:
    """Return the p at which at most ``errors`` errors in ``n`` trials have probability delta.

    The exact one-sided binomial limit: with probability at least 1 - delta the true error of the
    network is at most the returned value, which exceeds the exact limit by a relative 1e-9 at most.

    >>> round(clopper_pearson(13, 1000, 0.05), 5)
    0.02059
    >>> clopper_pearson(7, 7, 0.05)
    1.0
    """
    from scipy.special import betaincc, betainccinv

    errors, n = check_errors(errors, n)
    delta = check_delta(delta)
    if errors == n:
        return 1.0
    # P(at most k errors) = 1 - I_p(k+1, n-k), decreasing in p
    root = float(betainccinv(errors + 1, n - errors, delta))
    step = 1e-13 * root
    while root < 1.0 and betaincc(errors + 1, n - errors, root) > delta * (1.0 - _BETA_ACCURACY):
        root, step = up(root + step), 2.0 * step
    return min(1.0, root)


def chernoff(errors: SupportsIndex, n: SupportsIndex, delta: float) -> float:
    """Return kl_inverse(errors/n, ln(1/delta)/n), slightly above :func:`clopper_pearson`.

    It also holds for losses in [0, 1]; use :func:`kl_inverse` with their mean for those.

    >>> round(chernoff(13, 1000, 0.05), 5)
    0.0238
    """
    return kl_chernoff_limit(error_rate(errors, n), n, delta)
