"""The bound for one network drawn from the posterior: deterministic, deployable, no Monte Carlo."""

from typing import SupportsIndex

from curvbound.bounds._budget import Constant, budget
from curvbound.bounds._checks import check_number, check_risk
from curvbound.bounds.kl_inverse import kl_inverse
from curvbound.errors import CurvboundError

__all__ = ["single_draw_kl"]


def single_draw_kl(
    risk: float,
    log_ratio: float,
    n: SupportsIndex,
    delta: float,
    *,
    constant: Constant = "maurer",
    charge: float = 0.0,
) -> float:
    """Return kl_inverse(risk, (ln dQ/dP(w) + ln(2 sqrt(n)/delta))/n) for one draw w from Q.

    With probability at least 1 - delta over the n examples AND the one draw, the true risk of the
    network w is at most this. The draw is made once, with a seed nobody could shop for; drawing
    again until the value is small voids the statement. A budget below 0 counts as 0.

    Args:
        risk: Empirical risk of the drawn network on the n examples.
        log_ratio: ln of the density of Q over that of P at w, in nats; may be negative.
        n: Number of examples.
        delta: Probability with which the statement may fail.
        constant: As in :func:`curvbound.bounds.complexity`.
        charge: Nats to pay for choosing the prior.

    >>> round(single_draw_kl(0.03, 5000.0, 55000, 0.05), 4)
    0.1618
    """
    risk, log_ratio = check_risk(risk), check_number(log_ratio, "log_ratio")
    if log_ratio == float("-inf"):
        raise CurvboundError(
            "log_ratio is -inf, which no weights drawn from the posterior can have; "
            "evaluate both densities at the drawn weights."
        )
    return kl_inverse(risk, max(0.0, budget(log_ratio, n, delta, constant=constant, charge=charge)))
