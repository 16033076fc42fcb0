"""What all distributions over the parameters of a network have in common."""

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from curvbound.errors import CurvboundError
from curvbound.gaussians.layout import BlockLayout, checked_parameters, layouts_of
from curvbound.gaussians.noise import LayerNoise
from curvbound.gaussians.numerics import upward

__all__ = ["Distribution", "Divergence", "from_tensors"]


@dataclass(frozen=True)
class Divergence:
    """KL(Q || P) in nats by layer, every number rounded up.

    Attributes:
        layers: Share of each layer; infinite when Q gives weight to what P excludes.
    """

    layers: Mapping[str, float]

    @property
    def total(self) -> float:
        """Sum over the layers, never below the true value."""
        return upward(math.fsum(self.layers.values()))


class Distribution(ABC):
    """A probability distribution over named parameters: a prior or a posterior.

    Attributes:
        mean: Centre of every parameter, in the precision of the network.
        layouts: The parameters as one matrix per layer.
    """

    kind: ClassVar[str]
    _kinds: ClassVar[dict[str, type["Distribution"]]] = {}

    def __init_subclass__(cls) -> None:
        Distribution._kinds[cls.kind] = cls

    def __init__(self, mean: Mapping[str, Tensor]) -> None:
        self.mean = checked_parameters(mean, "mean")
        self.layouts = layouts_of(self.mean)

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(layout.size for layout in self.layouts.values())

    @property
    def layer_noise(self) -> Mapping[str, LayerNoise]:
        """How each layer deviates from its mean; empty when layers are not independent."""
        return {}

    @abstractmethod
    def sample(
        self, generator: torch.Generator, *, dtype: torch.dtype | None = None
    ) -> dict[str, Tensor]:
        """Draw all parameters.

        Args:
            generator: Source of randomness.
            dtype: Precision of the draw, that of the mean by default. Rounding is a fixed map of
                the weights, under which the divergence cannot grow (CERT-5).
        """

    @abstractmethod
    def kl(self, prior: "Distribution") -> Divergence:
        """KL(self || prior), by layer, rounded up."""

    @abstractmethod
    def _log_density(self, parameters: Mapping[str, Tensor]) -> tuple[float, float]:
        """Log-density and a bound on its error."""

    @abstractmethod
    def to_tensors(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything that defines the distribution: tensors by name and a JSON-able description.

        :func:`from_tensors` is the inverse; no code of the network is needed.
        """

    @classmethod
    @abstractmethod
    def _from_tensors(
        cls, mean: dict[str, Tensor], tensors: Mapping[str, Tensor]
    ) -> "Distribution":
        """Build it from what :meth:`to_tensors` gave."""

    def log_prob(self, parameters: Mapping[str, Tensor]) -> float:
        """Logarithm of the density at the given parameters."""
        return self._log_density(parameters)[0]

    def log_ratio(self, prior: "Distribution", parameters: Mapping[str, Tensor]) -> float:
        """The logarithm of dQ/dP at drawn parameters, rounded up (CERT-4 iv).

        This is what the bound for one drawn network needs. Draw with ``dtype=torch.float64``,
        evaluate here, and round to the network's precision afterwards: the rounded network is a
        function of the draw.
        """
        self._require_same_parameters(prior)
        value, error = self._log_density(parameters)
        prior_value, prior_error = prior._log_density(parameters)
        return upward(value - prior_value, error + prior_error)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the content: description, names, precisions, shapes and bytes."""
        tensors, description = self.to_tensors()
        digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
        for name in sorted(tensors):
            tensor = tensors[name].detach().cpu().contiguous()
            digest.update(f" {name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
            digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def _require_same_parameters(self, other: "Distribution") -> None:
        _require_same_layouts(self.layouts, other.layouts, "prior")

    def _differences(self, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """``parameters - mean`` as float64 matrices, one for each layer."""
        for name, tensor in self.mean.items():
            if name not in parameters or parameters[name].shape != tensor.shape:
                raise CurvboundError(
                    f"Parameter '{name}' of shape {tuple(tensor.shape)} is missing or has another "
                    "shape: pass the parameters of the same network."
                )
        return {
            name: layout.join(self._float64(parameters)) - layout.join(self._float64(self.mean))
            for name, layout in self.layouts.items()
        }

    def _float64(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {
            name: tensors[name].detach().to(mean.device, torch.float64)
            for name, mean in self.mean.items()
        }

    def _sample_coordinates(
        self, generator: torch.Generator, dtype: torch.dtype | None
    ) -> dict[str, Tensor]:
        """Mean plus the noise of every layer, in float64 until the last rounding."""
        drawn: dict[str, Tensor] = {}
        for noise in self.layer_noise.values():
            device = self.mean[noise.layout.parameters[0]].device
            drawn |= noise.layout.split(
                noise.standard_noise(1, generator, torch.float64, device)[0]
            )
        return {
            name: (mean.to(torch.float64) + drawn[name]).to(dtype or mean.dtype)
            for name, mean in self.mean.items()
        }

    def _describe(self) -> dict[str, Any]:
        return {"kind": self.kind, "parameters": list(self.mean)}


def _require_same_layouts(
    ours: Mapping[str, BlockLayout], theirs: Mapping[str, BlockLayout], what: str
) -> None:
    for name in [*ours, *theirs]:
        if ours.get(name) != theirs.get(name):
            raise CurvboundError(
                f"The {what} belongs to another architecture: its block '{name}' is "
                f"{_shown(theirs.get(name))}, not {_shown(ours.get(name))}."
            )


def _shown(layout: BlockLayout | None) -> str:
    return "missing" if layout is None else " and ".join(map(str, layout.shapes))


def from_tensors(tensors: Mapping[str, Tensor], description: Mapping[str, Any]) -> Distribution:
    """Rebuild a distribution from :meth:`Distribution.to_tensors`, with every check repeated."""
    content = description if isinstance(description, Mapping) else {}
    kind, names = content.get("kind"), content.get("parameters")
    if not isinstance(kind, str) or kind not in Distribution._kinds or not isinstance(names, list):
        raise CurvboundError(
            f"The stored distribution is of unknown kind {kind!r} or names no parameters: it was "
            "not written by this version."
        )
    missing = [name for name in names if f"mean/{name}" not in tensors]
    if missing:
        raise CurvboundError(f"The stored distribution lacks the mean of '{missing[0]}'.")
    mean = {name: tensors[f"mean/{name}"] for name in names}
    result = Distribution._kinds[kind]._from_tensors(mean, tensors)
    foreign = set(tensors).difference(result.to_tensors()[0])
    if foreign:
        raise CurvboundError(f"The stored distribution has no place for '{min(foreign)}'.")
    return result
