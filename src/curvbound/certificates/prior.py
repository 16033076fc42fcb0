"""Priors: where the weights were before the bound data were seen, and what choosing costs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from curvbound.bounds import LogGrid, error_rate, total_charge, tried_charge
from curvbound.certificates.claims import mistakes, with_weights
from curvbound.certificates.preparation import Prepared
from curvbound.curvature import diagonal
from curvbound.datasets import Examples
from curvbound.errors import CurvboundError
from curvbound.gaussians import Gaussian, isotropic
from curvbound.gaussians.layout import layouts_of
from curvbound.landscape import Landscape

__all__ = ["DATA_FREE_GRID", "Prior", "PriorSource", "quiet_grids", "require_untrained"]

PriorSource = Literal["initialisation", "disjoint data"]

DATA_FREE_GRID = LogGrid(precision=10.0, largest=10.0)
"""Prior variances per layer when nothing is known: 10 exp(-j/10), j = 1, 2, ..."""


@dataclass(frozen=True)
class Prior:
    """A family of Gaussian priors ``N(mean, lambda_l I)``, one variance per layer from its grid.

    Attributes:
        mean: Prior mean by parameter name.
        source: ``"initialisation"`` (no data were seen) or ``"disjoint data"``.
        grids: Allowed variances of each layer, fixed before the bound data were seen.
        tried: Priors (architectures, seeds, shapes) that were looked at on the bound data,
            this one included; ln(tried) is charged.
        data_hash: Content hash of the disjoint data the mean was trained on.
        specification: Arguments of ``networks.build`` that regenerate the mean, if it is one.
    """

    mean: Mapping[str, Tensor]
    source: PriorSource
    grids: Mapping[str, LogGrid]
    tried: int = 1
    data_hash: str | None = None
    specification: Mapping[str, Any] | None = field(default=None)

    @classmethod
    def from_initialisation(
        cls,
        mean: Mapping[str, Tensor],
        *,
        tried: int = 1,
        specification: Mapping[str, Any] | None = None,
    ) -> "Prior":
        """A prior around weights that were drawn without any data."""
        grids = dict.fromkeys(layouts_of(mean), DATA_FREE_GRID)
        return cls(mean, "initialisation", grids, tried, None, specification)

    def distribution(self, indices: Mapping[str, int]) -> Gaussian:
        """The prior with the given grid index for each layer."""
        return isotropic(
            self.mean, {name: self.grids[name].scale(j) for name, j in indices.items()}
        )

    def charges(self, indices: Mapping[str, int]) -> dict[str, float]:
        """Nats to pay for each choice: one grid point per layer, and ``tried``."""
        layers = {f"scale of {name}": self.grids[name].charge(j) for name, j in indices.items()}
        return {**layers, "tried": tried_charge(self.tried)}

    def charge(self, indices: Mapping[str, int]) -> float:
        """Sum of :meth:`charges`, rounded up."""
        return total_charge(self.charges(indices).values())


_QUIET_LOSS = 0.001
_QUIET_EXAMPLES = 5_000
_DECADE = LogGrid(precision=1.0 / math.log(10.0), largest=10.0)


def quiet_grids(prepared: Prepared, seen: Examples) -> dict[str, LogGrid]:
    """Prior variances for a mean trained on disjoint data, found from those data alone.

    The first point of a layer's grid is the variance whose noise raises the quadratic loss on the
    prior data by a fixed small amount, the next ones are ten times smaller each. As nothing of
    the bound data enters, only the choice among the points is charged.
    """
    model = with_weights(prepared.model, prepared.start)
    some = seen if len(seen) <= _QUIET_EXAMPLES else seen.split(_QUIET_EXAMPLES)[0]
    land = Landscape(model, some)
    values = land.unflatten(diagonal(land))
    layouts = layouts_of(prepared.start)
    grids = {}
    for name, layout in layouts.items():
        trace = float(layout.join(values).sum(dtype=torch.float64))
        variance = 2 * _QUIET_LOSS / len(layouts) / max(trace, 1e-12)
        grids[name] = LogGrid(_DECADE.precision, _DECADE.largest * min(variance, 1.0))
    return grids


def require_untrained(prepared: Prepared, data: Examples) -> None:
    """Refuse an initialisation that is far better than guessing: it has seen such data."""
    chance = 1.0 - 1.0 / data.classes
    risk = error_rate(mistakes(with_weights(prepared.model, prepared.start), data), len(data))
    if risk < chance**2 / 2:  # luck goes further with two classes than with ten
        raise CurvboundError(
            f"The initialisation already has an error of only {risk:.3f} on the bound data, far "
            f"below the {chance:.3f} of guessing, so it was trained on something: say on what with "
            "prior_data=, or give the true initial weights."
        )
