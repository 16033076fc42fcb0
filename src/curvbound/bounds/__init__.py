"""Bounds on the true risk: pure float64 functions of (empirical risk, KL, n, delta).

Every function rounds to the safe side. docs/concepts/bounds.md says when each bound is valid.
"""

from curvbound.bounds._budget import Constant
from curvbound.bounds.hoeffding import pac_bayes_hoeffding, pac_bayes_hoeffding_grid
from curvbound.bounds.holdout import chernoff, clopper_pearson
from curvbound.bounds.kl_inverse import binary_kl, kl_inverse, kl_inverse_lower
from curvbound.bounds.ledger import DeltaLedger
from curvbound.bounds.maurer_constant import maurer_xi
from curvbound.bounds.monte_carlo import (
    empirical_bernstein_limit,
    error_rate,
    kl_chernoff_limit,
    monte_carlo_limit,
)
from curvbound.bounds.pac_bayes import catoni, complexity, mcallester, pac_bayes_kl, pinsker
from curvbound.bounds.single_draw import single_draw_kl
from curvbound.bounds.unions import (
    LogGrid,
    finite_grid_charge,
    log_grid_charge,
    total_charge,
    tried_charge,
)

__all__ = [
    "Constant",
    "DeltaLedger",
    "LogGrid",
    "binary_kl",
    "catoni",
    "chernoff",
    "clopper_pearson",
    "complexity",
    "empirical_bernstein_limit",
    "error_rate",
    "finite_grid_charge",
    "kl_chernoff_limit",
    "kl_inverse",
    "kl_inverse_lower",
    "log_grid_charge",
    "maurer_xi",
    "mcallester",
    "monte_carlo_limit",
    "pac_bayes_hoeffding",
    "pac_bayes_hoeffding_grid",
    "pac_bayes_kl",
    "pinsker",
    "single_draw_kl",
    "total_charge",
    "tried_charge",
]
