"""Certificates: valid, re-checkable upper bounds on the true error, and how they are made."""

from curvbound.certificates.feasibility import OptimalPrior, optimal_prior_lower_bound

__all__ = ["OptimalPrior", "optimal_prior_lower_bound"]
