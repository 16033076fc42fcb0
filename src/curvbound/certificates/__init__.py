"""Certificates: valid, re-checkable upper bounds on the true error, and how they are made."""

from curvbound.certificates.certificate import Certificate
from curvbound.certificates.certify import certify
from curvbound.certificates.closed_form import BlockCurvature, ClosedForm, closed_form
from curvbound.certificates.feasibility import OptimalPrior, optimal_prior_lower_bound
from curvbound.certificates.prior import Prior
from curvbound.certificates.shape import layer_curvature
from curvbound.certificates.verification import Verification
from curvbound.certificates.verify import verify

__all__ = [
    "BlockCurvature",
    "Certificate",
    "ClosedForm",
    "OptimalPrior",
    "Prior",
    "Verification",
    "certify",
    "closed_form",
    "layer_curvature",
    "optimal_prior_lower_bound",
    "verify",
]
