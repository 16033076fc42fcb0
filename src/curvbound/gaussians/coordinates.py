"""What distributions with independent coordinates share: scales and noise by layer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from curvbound.errors import CurvboundError
from curvbound.gaussians.layout import BlockLayout

__all__ = ["CoordinateNoise", "Scales", "positive_scales", "scales_from"]

Scales = float | Mapping[str, Tensor]
"""One positive number for all coordinates, or a tensor for each parameter."""


def positive_scales(mean: Mapping[str, Tensor], scales: Scales, what: str) -> dict[str, Tensor]:
    """Float64 copies in the shapes of the parameters, refused unless positive and finite."""
    checked = {}
    for name, tensor in mean.items():
        if isinstance(scales, Mapping):
            given = scales.get(name)
        else:
            given = torch.full(tensor.shape, float(scales), dtype=torch.float64)
        if given is None or given.shape != tensor.shape:
            raise CurvboundError(
                f"The {what} of parameter '{name}' is missing or has another shape than "
                f"{tuple(tensor.shape)}: give one number for each entry."
            )
        copy = given.detach().to(tensor.device, torch.float64, copy=True).contiguous()
        if not bool((torch.isfinite(copy) & (copy > 0)).all()):
            raise CurvboundError(
                f"The {what} of parameter '{name}' must be positive and finite everywhere."
            )
        checked[name] = copy
    return checked


def scales_from(tensors: Mapping[str, Tensor], kind: str) -> dict[str, Tensor]:
    """Stored tensors ``KIND/PARAMETER`` by parameter."""
    return {
        key.removeprefix(f"{kind}/"): tensor
        for key, tensor in tensors.items()
        if key.startswith(f"{kind}/")
    }


@dataclass(frozen=True)
class CoordinateNoise:
    """Independent deviations of one layer: ``draw`` makes them from uniform numbers in [0, 1)."""

    layout: BlockLayout
    draw: Callable[[Tensor], Tensor]
    left: Tensor | None = None
    right: Tensor | None = None

    def standard_noise(
        self, count: int, generator: torch.Generator, dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        """Independent draws, ``(count, rows, columns)``."""
        shape = (count, self.layout.rows, self.layout.columns)
        numbers = torch.rand(
            shape, generator=generator, dtype=torch.float64, device=generator.device
        )
        return self.draw(numbers.to(device)).to(dtype)
