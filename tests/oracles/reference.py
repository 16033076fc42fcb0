"""Dense references of the grid, computed once per network and loss."""

from functools import cache

from torch import Tensor

from oracles import dense
from oracles.networks import BY_NAME


@cache
def reference(kind: str, case: str, loss: str) -> Tensor:
    """``hessian``, ``gauss_newton`` or ``empirical_fisher`` of a network of the grid, float64."""
    model, inputs, targets = BY_NAME[case].make(loss)
    result: Tensor = getattr(dense, kind)(model, inputs, targets, loss)
    return result
