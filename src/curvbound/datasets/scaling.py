"""Input scalings: constants chosen without looking at the data a bound is computed on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from curvbound.datasets.origin import Origin
from curvbound.errors import CurvboundError

if TYPE_CHECKING:
    from curvbound.datasets.examples import Examples

__all__ = ["SCALINGS", "Scaling", "ScalingChoice", "as_scaling", "fit_scaling"]

# Rows converted to float64 at a time, to keep temporary tensors small.
FIT_ROWS = 4096


@dataclass(frozen=True)
class Scaling:
    """The map ``x -> (x - shift) / scale``.

    Attributes:
        name: How the scaling is called in reports.
        shift: One number, or one per feature (tables) or channel (images).
        scale: The same for the divisor.
        fitted_on: The examples whose mean and deviation were used; ``None`` for constants. A
            certificate must refuse bound data that overlap with it.
    """

    name: str
    shift: tuple[float, ...]
    scale: tuple[float, ...]
    fitted_on: Origin | None = None

    @property
    def identity(self) -> bool:
        """Whether the scaling leaves inputs as they are."""
        return set(self.shift) == {0.0} and set(self.scale) == {1.0}

    def apply(self, inputs: Tensor) -> Tensor:
        """The scaled inputs.

        Raises:
            CurvboundError: If there is neither one constant nor one per feature or channel.
        """
        shift, scale = (self._spread(part, inputs) for part in (self.shift, self.scale))
        return inputs.sub(shift).div_(scale)

    def _spread(self, constants: tuple[float, ...], inputs: Tensor) -> Tensor:
        values = torch.tensor(constants, dtype=inputs.dtype, device=inputs.device)
        if len(constants) == 1:
            return values
        if len(constants) != inputs.shape[1]:
            raise CurvboundError(
                f"scaling {self.name!r} has {len(constants)} constants but the inputs have "
                f"{inputs.shape[1]} features or channels: give one constant or one for each"
            )
        return values.view(1, -1, *(1,) * (inputs.dim() - 2))


SCALINGS = {
    "none": Scaling("none", (0.0,), (1.0,)),
    "unit": Scaling("unit", (0.0,), (1.0,)),
    "symmetric": Scaling("symmetric", (0.5,), (0.5,)),
    "mnist": Scaling("mnist", (0.1307,), (0.3081,)),
}
"""Named scalings. All but ``none`` are for pixels, which are stored between 0 and 1:
``unit`` [0, 1], ``symmetric`` (x-.5)/.5, ``mnist`` (x-.1307)/.3081 (001-E18)."""

ScalingChoice = str | Scaling | tuple[float | Sequence[float], float | Sequence[float]]
"""A scaling, its name, or constants ``(shift, scale)``, each one number or one per feature."""


def as_scaling(choice: ScalingChoice) -> Scaling:
    """The scaling that a name or a pair ``(shift, scale)`` of constants stands for.

    >>> as_scaling((0.5, 2.0)).scale
    (2.0,)

    Raises:
        CurvboundError: If the name is unknown or the constants cannot be used.
    """
    if isinstance(choice, Scaling):
        return choice
    if isinstance(choice, str):
        if choice not in SCALINGS:
            raise CurvboundError(
                f"unknown scaling {choice!r}: use one of {', '.join(SCALINGS)} or a pair of "
                "constants (shift, scale)"
            )
        return SCALINGS[choice]
    try:
        shift, scale = (
            tuple(float(c) for c in part) if isinstance(part, Sequence) else (float(part),)
            for part in choice
        )
    except (TypeError, ValueError):
        raise CurvboundError(
            f"the scaling {choice!r} is neither a name nor a pair of constants (shift, scale)"
        ) from None
    finite = all(torch.tensor(part).isfinite().all() for part in (shift, scale))
    if not (shift and scale and finite) or 0.0 in scale:
        raise CurvboundError(
            f"the scaling constants {choice!r} must be finite and the scale must not be 0"
        )
    return Scaling("constants", shift, scale)


def fit_scaling(prior_part: Examples) -> Scaling:
    """Mean and standard deviation of each feature or channel of the prior part of a split.

    The result may be applied to every part. It remembers the rows it was fitted on, so that
    nobody can certify with it on those same rows (CERT-7: no statistics of the bound data).
    A feature that never varies is only shifted.

    Raises:
        CurvboundError: If the examples are already scaled.
    """
    if not prior_part.scaling.identity:
        raise CurvboundError(
            f"{prior_part.name} is already scaled ({prior_part.scaling.name}): fit a scaling on "
            "examples loaded with scaling='none'"
        )
    inputs = prior_part.inputs
    axes = [axis for axis in range(inputs.dim()) if axis != 1]
    spread = (1, -1, *(1,) * (inputs.dim() - 2))
    count = inputs.numel() / inputs.shape[1]
    mean = torch.zeros(inputs.shape[1], dtype=torch.float64, device=inputs.device)
    for start in range(0, len(inputs), FIT_ROWS):
        mean += inputs[start : start + FIT_ROWS].double().sum(axes) / count
    variance = torch.zeros_like(mean)
    for start in range(0, len(inputs), FIT_ROWS):
        centred = inputs[start : start + FIT_ROWS].double() - mean.view(spread)
        variance += centred.square().sum(axes) / count
    deviation = variance.sqrt()
    # What rounding leaves of a constant feature is no deviation.
    varies = deviation > 1e-12 * mean.abs()
    scale = torch.where(varies, deviation, torch.ones_like(deviation))
    return Scaling("fitted", tuple(mean.tolist()), tuple(scale.tolist()), prior_part.lineage)
