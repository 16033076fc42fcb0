"""Uniform distributions on boxes: prior and posterior of 003 Lemma 6."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from curvbound.errors import CurvboundError
from curvbound.gaussians.coordinates import CoordinateNoise, Scales, positive_scales, scales_from
from curvbound.gaussians.distribution import Distribution, Divergence
from curvbound.gaussians.noise import LayerNoise
from curvbound.gaussians.numerics import RELATIVE_ERROR, upward

__all__ = ["Uniform"]


class Uniform(Distribution):
    """Independent coordinates, uniform on mean ± half_width.

    >>> prior = Uniform({"w": torch.zeros(2)}, 1.0)
    >>> posterior = Uniform({"w": torch.tensor([0.5, 0.0])}, 0.5)
    >>> round(posterior.kl(prior).total / math.log(2), 6)
    2.0

    Args:
        mean: Centre of every parameter.
        half_width: One number for all coordinates, or a tensor for each parameter.
    """

    kind: ClassVar[str] = "uniform"

    def __init__(self, mean: Mapping[str, Tensor], half_width: Scales) -> None:
        super().__init__(mean)
        self.half_width = positive_scales(self.mean, half_width, "half width")

    @property
    def layer_noise(self) -> Mapping[str, LayerNoise]:
        """Deviations between -half_width and half_width."""
        return {name: self._noise(name) for name in self.layouts}

    def _noise(self, name: str) -> CoordinateNoise:
        width = self.layouts[name].join(self.half_width)
        return CoordinateNoise(
            self.layouts[name], lambda numbers: (2.0 * numbers - 1.0) * width.to(numbers.device)
        )

    def sample(
        self, generator: torch.Generator, *, dtype: torch.dtype | None = None
    ) -> dict[str, Tensor]:
        """Draw all parameters (see :meth:`Distribution.sample`)."""
        return self._sample_coordinates(generator, dtype)

    def second_moment(self) -> dict[str, Tensor]:
        """E u^2 = half_width^2 / 3 of the deviation u (003 eq. 12)."""
        return {name: width.square() / 3.0 for name, width in self.half_width.items()}

    def kl(self, prior: Distribution) -> Divergence:
        """Sum of ln(tau / sigma), or infinity where the box is not inside the prior's (003-E2)."""
        if not isinstance(prior, Uniform):
            raise CurvboundError(
                f"The divergence of a uniform posterior from a {prior.kind} prior is not "
                "available: use a uniform prior."
            )
        self._require_same_parameters(prior)
        layers = {}
        for name, layout in self.layouts.items():
            narrow, wide = layout.join(self.half_width), layout.join(prior.half_width)
            centre = layout.join(self._float64(self.mean))
            if _inside(centre, layout.join(self._float64(prior.mean)), narrow, wide):
                nats = float(((wide - narrow) / narrow).log1p().sum())
                layers[name] = upward(nats, RELATIVE_ERROR * nats)
            else:
                layers[name] = math.inf
        return Divergence(layers)

    def _log_density(self, parameters: Mapping[str, Tensor]) -> tuple[float, float]:
        values, errors = [], []
        for name, difference in self._differences(parameters).items():
            width = self.layouts[name].join(self.half_width)
            if not bool((difference.abs() <= width).all()):
                return -math.inf, 0.0
            logs = (2.0 * width).log()
            values.append(-float(logs.sum()))
            errors.append(RELATIVE_ERROR * float(logs.abs().sum()))
        return math.fsum(values), math.fsum(errors)

    def to_tensors(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors ``mean/PARAMETER`` and ``half_width/PARAMETER``."""
        tensors = {f"mean/{name}": tensor for name, tensor in self.mean.items()}
        tensors |= {f"half_width/{name}": width for name, width in self.half_width.items()}
        return tensors, self._describe()

    @classmethod
    def _from_tensors(cls, mean: dict[str, Tensor], tensors: Mapping[str, Tensor]) -> "Uniform":
        return cls(mean, scales_from(tensors, "half_width"))


def _inside(centre: Tensor, prior_centre: Tensor, narrow: Tensor, wide: Tensor) -> bool:
    """Whether |centre - prior_centre| + narrow <= wide everywhere, decided without rounding.

    Each floating-point sum is split into its result and its exact error (Knuth's two-sum).
    """
    distance, slip = _exact_sum(centre, -prior_centre)
    slip = torch.where(distance < 0, -slip, slip)
    reach, rest = _exact_sum(distance.abs(), narrow)
    return bool(((reach - wide) + (rest + slip) <= 0).all())


def _exact_sum(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)
