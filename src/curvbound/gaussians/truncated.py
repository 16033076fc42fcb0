"""Truncated Gaussians: the posterior of 003 Lemma 8, with its exact divergence."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from curvbound.errors import CurvboundError
from curvbound.gaussians.coordinates import CoordinateNoise, Scales, positive_scales, scales_from
from curvbound.gaussians.distribution import Distribution, Divergence
from curvbound.gaussians.gaussian import Gaussian
from curvbound.gaussians.noise import LayerNoise
from curvbound.gaussians.numerics import RELATIVE_ERROR, upward

__all__ = ["TruncatedGaussian", "largest_deviation"]

_SERIES_TERMS = 60
_SERIES_BELOW = 3.0


class TruncatedGaussian(Distribution):
    """Independent coordinates mean + u with u ~ N(0, deviation^2) conditioned on |u| <= radius.

    Args:
        mean: Centre of every parameter.
        deviation: sigma, one number for all coordinates or a tensor for each parameter.
        radius: kappa, likewise.
    """

    kind: ClassVar[str] = "truncated"

    def __init__(self, mean: Mapping[str, Tensor], deviation: Scales, radius: Scales) -> None:
        super().__init__(mean)
        self.deviation = positive_scales(self.mean, deviation, "deviation")
        self.radius = positive_scales(self.mean, radius, "radius")

    @property
    def layer_noise(self) -> Mapping[str, LayerNoise]:
        """Deviations between -radius and radius."""
        return {name: self._noise(name) for name in self.layouts}

    def _noise(self, name: str) -> CoordinateNoise:
        deviation, radius = self._matrices(name)
        mass = (radius / (deviation * math.sqrt(2.0))).erf()

        def draw(numbers: Tensor) -> Tensor:
            """Inverse of the distribution function."""
            inside = mass.to(numbers.device) * (2.0 * numbers - 1.0)
            noise = inside.erfinv() * (math.sqrt(2.0) * deviation.to(numbers.device))
            limit = radius.to(numbers.device)
            return torch.minimum(torch.maximum(noise, -limit), limit)

        return CoordinateNoise(self.layouts[name], draw)

    def _matrices(self, name: str) -> tuple[Tensor, Tensor]:
        layout = self.layouts[name]
        return layout.join(self.deviation), layout.join(self.radius)

    def sample(
        self, generator: torch.Generator, *, dtype: torch.dtype | None = None
    ) -> dict[str, Tensor]:
        """Draw all parameters (see :meth:`Distribution.sample`)."""
        return self._sample_coordinates(generator, dtype)

    def second_moment(self) -> dict[str, Tensor]:
        """E u^2 = sigma^2 (1 - 2 a phi(a) / Z) of the deviation u, with a = kappa / sigma."""
        return {
            name: _variance(deviation, self.radius[name])
            for name, deviation in self.deviation.items()
        }

    def kl(self, prior: Distribution) -> Divergence:
        """Exact divergence from a Gaussian prior without rotations (003-E6), rounded up.

        With v = E u^2 every coordinate gives
        -ln Z + 1/2 [ln(tau / sigma^2) - v / sigma^2 + v / tau] + d^2 / (2 tau).
        """
        if not isinstance(prior, Gaussian) or any(
            block.left is not None or block.right is not None for block in prior.blocks.values()
        ):
            raise CurvboundError(
                "The divergence of a truncated Gaussian is available for Gaussian priors without "
                "rotated bases: use isotropic() or diagonal()."
            )
        self._require_same_parameters(prior)
        differences = prior._differences(self.mean)
        return Divergence(
            {name: self._layer_kl(name, prior, differences[name]) for name in self.layouts}
        )

    def _layer_kl(self, name: str, prior: Gaussian, difference: Tensor) -> float:
        deviation, radius = self._matrices(name)
        scale = prior.blocks[name].variance
        variance = _variance(deviation, radius)
        mass = -_log_mass(radius / deviation)
        logs = 0.5 * scale.log() - deviation.log()
        spread = 0.5 * variance / scale
        own = 0.5 * (variance / deviation) / deviation
        shift = 0.5 * difference.square() / scale
        value = float((mass + logs - own + spread + shift).sum())
        sizes = mass + 0.5 * scale.log().abs() + deviation.log().abs() + own + spread + shift
        return upward(value, RELATIVE_ERROR * float(sizes.sum()))

    def _log_density(self, parameters: Mapping[str, Tensor]) -> tuple[float, float]:
        values, errors = [], []
        for name, difference in self._differences(parameters).items():
            deviation, radius = self._matrices(name)
            if not bool((difference.abs() <= radius).all()):
                return -math.inf, 0.0
            squares = 0.5 * (difference / deviation).square()
            logs = (deviation * math.sqrt(2.0 * math.pi)).log()
            mass = -_log_mass(radius / deviation)
            values.append(float((mass - squares - logs).sum()))
            errors.append(RELATIVE_ERROR * float((mass + squares + logs.abs()).sum()))
        return math.fsum(values), math.fsum(errors)

    def to_tensors(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors ``mean/PARAMETER``, ``deviation/PARAMETER`` and ``radius/PARAMETER``."""
        tensors = {f"mean/{name}": tensor for name, tensor in self.mean.items()}
        tensors |= {f"deviation/{name}": tensor for name, tensor in self.deviation.items()}
        tensors |= {f"radius/{name}": tensor for name, tensor in self.radius.items()}
        return tensors, self._describe()

    @classmethod
    def _from_tensors(
        cls, mean: dict[str, Tensor], tensors: Mapping[str, Tensor]
    ) -> "TruncatedGaussian":
        return cls(mean, scales_from(tensors, "deviation"), scales_from(tensors, "radius"))


def largest_deviation(radius: float, parameters: int) -> float:
    """Largest sigma with P(|u| > kappa) <= 1 / (2m) for u ~ N(0, sigma^2) (003-E5).

    kappa / (sqrt(2) erfcinv(1 / (2m))), exact for any number m of parameters; then all m deviations
    lie inside their radius with probability at least 1/2.

    >>> round(largest_deviation(1.0, 1000), 4)
    0.2873
    """
    from scipy.special import erfcinv

    if parameters < 1 or not 0.0 < radius < math.inf:
        raise CurvboundError("The radius must be positive and the number of parameters at least 1.")
    return radius / (math.sqrt(2.0) * float(erfcinv(0.5 / parameters)))


def _log_mass(a: Tensor) -> Tensor:
    """The logarithm of Z = P(|z| <= a) = erf(a / sqrt(2))."""
    scaled = a / math.sqrt(2.0)
    return torch.where(a < 1.0, scaled.erf().log(), torch.log1p(-scaled.erfc()))


def _variance(deviation: Tensor, radius: Tensor) -> Tensor:
    """E u^2 = sigma^2 (1 - 2 a phi(a) / Z) with a = kappa / sigma, without cancellation.

    The formula loses all digits for small a. There it is, with Kummer's function M, a series of
    positive terms, (kappa^2 / 3) M(1, 5/2, a^2/2) / M(1, 3/2, a^2/2).
    """
    a = radius / deviation
    x = 0.5 * a.clamp_max(_SERIES_BELOW).square()
    series = radius.square() / 3.0 * _kummer(2.5, x) / _kummer(1.5, x)
    density = torch.exp(-0.5 * a.square()) * math.sqrt(2.0 / math.pi)
    cut = torch.where(density == 0.0, 0.0, a * density / (a / math.sqrt(2.0)).erf())
    return torch.where(a < _SERIES_BELOW, series, deviation.square() * (1.0 - cut))


def _kummer(b: float, x: Tensor) -> Tensor:
    """M(1, b, x) = 1 + x/b (1 + x/(b+1) (1 + ...))."""
    result = torch.ones_like(x)
    for k in range(_SERIES_TERMS, -1, -1):
        result = 1.0 + x / (b + k) * result
    return result
