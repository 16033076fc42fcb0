"""Gaussians over the parameters of a network, a product over its layers."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from curvbound.errors import CurvboundError
from curvbound.gaussians.block import Block
from curvbound.gaussians.distribution import Distribution, Divergence
from curvbound.gaussians.divergence import block_kl
from curvbound.gaussians.layout import BlockLayout, layouts_of
from curvbound.gaussians.noise import LayerNoise
from curvbound.gaussians.numerics import RELATIVE_ERROR

__all__ = ["Gaussian", "diagonal", "isotropic", "kronecker", "neuron_block"]

_LOG_TWO_PI = math.log(2.0 * math.pi)


class Gaussian(Distribution):
    """Independent layers, each with independent variances in a basis of its own.

    Build one with :func:`isotropic`, :func:`diagonal`, :func:`neuron_block` or :func:`kronecker`.

    Attributes:
        mean: Mean of every parameter.
        blocks: Covariance of every layer.
    """

    kind: ClassVar[str] = "gaussian"

    def __init__(self, mean: Mapping[str, Tensor], blocks: Mapping[str, Block]) -> None:
        super().__init__(mean)
        for name, layout in self.layouts.items():
            if name not in blocks or blocks[name].layout != layout:
                raise CurvboundError(
                    f"There is no covariance for block '{name}' with shapes {layout.shapes}: the "
                    "mean and the covariance must belong to the same network."
                )
        self.blocks = {name: blocks[name] for name in self.layouts}

    @property
    def layer_noise(self) -> Mapping[str, LayerNoise]:
        """The blocks."""
        return self.blocks

    def with_variances(self, variance: Mapping[str, Tensor]) -> "Gaussian":
        """The same means and bases with other variances, for a search over scales.

        Args:
            variance: Variances by layer, in the shapes they have now; others stay.
        """
        blocks = {
            name: block.with_variance(variance[name]) if name in variance else block
            for name, block in self.blocks.items()
        }
        return Gaussian(self.mean, blocks)

    def sample(
        self, generator: torch.Generator, *, dtype: torch.dtype | None = None
    ) -> dict[str, Tensor]:
        """Draw all parameters (see :meth:`Distribution.sample`)."""
        drawn: dict[str, Tensor] = {}
        for block in self.blocks.values():
            first = self.mean[block.layout.parameters[0]]
            noise = block.standard_noise(1, generator, dtype or first.dtype, first.device)[0]
            drawn.update(block.layout.split(block.rotate(noise)))
        return {name: mean.to(drawn[name].dtype) + drawn[name] for name, mean in self.mean.items()}

    def kl(self, prior: Distribution) -> Divergence:
        """KL(self || prior) for any other Gaussian of this class, layer by layer, rounded up.

        Against an isotropic layer prior N(m, l I) it is 1/2 sum [s/l - 1 - ln(s/l)]
        + |mean - m|^2 / (2 l), whatever the basis (000 eq. 6, 001 App. F).
        """
        if not isinstance(prior, Gaussian):
            raise CurvboundError(
                f"The divergence of a Gaussian from a {prior.kind} prior is not available: use a "
                "prior that is Gaussian in every layer."
            )
        self._require_same_parameters(prior)
        differences = prior._differences(self.mean)
        return Divergence(
            {
                name: block_kl(block, prior.blocks[name], differences[name])
                for name, block in self.blocks.items()
            }
        )

    def _log_density(self, parameters: Mapping[str, Tensor]) -> tuple[float, float]:
        values, errors = [], []
        for name, difference in self._differences(parameters).items():
            block = self.blocks[name]
            squares = float((block.whiten(difference).square() / block.variance).sum())
            logs = _LOG_TWO_PI + block.variance.log()
            values.append(-0.5 * (squares + block.multiplicity() * float(logs.sum())))
            defect = 1.01 * block.defect
            slip = 2.0 * defect * float(difference.square().sum() / block.variance.min()) ** 0.5
            rounding = squares + block.multiplicity() * float(logs.abs().sum())
            errors.append(
                RELATIVE_ERROR * rounding
                + slip * (squares**0.5 + slip)
                + 0.5 * defect * block.layout.size
            )
        return math.fsum(values), math.fsum(errors)

    def to_tensors(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors ``mean/PARAMETER``, ``variance/BLOCK``, ``left/BLOCK``, ``right/BLOCK``."""
        tensors = {f"mean/{name}": tensor for name, tensor in self.mean.items()}
        for name, block in self.blocks.items():
            tensors[f"variance/{name}"] = block.variance
            if block.left is not None:
                tensors[f"left/{name}"] = block.left
            if block.right is not None:
                tensors[f"right/{name}"] = block.right
        return tensors, self._describe()

    @classmethod
    def _from_tensors(cls, mean: dict[str, Tensor], tensors: Mapping[str, Tensor]) -> "Gaussian":
        parts = {
            kind: {
                key.removeprefix(f"{kind}/"): tensor
                for key, tensor in tensors.items()
                if key.startswith(f"{kind}/")
            }
            for kind in ("variance", "left", "right")
        }
        return kronecker(mean, **parts)


def isotropic(mean: Mapping[str, Tensor], variance: float | Mapping[str, float]) -> Gaussian:
    """N(mean, variance I), with one variance for all or one for each layer (000-C9).

    >>> mean = {"fc.weight": torch.zeros(2, 3), "fc.bias": torch.zeros(2)}
    >>> prior, posterior = isotropic(mean, 0.5), isotropic(mean, {"fc": 0.5})
    >>> posterior.kl(prior).total < 1e-12
    True

    Args:
        mean: Parameters by name, for instance ``dict(model.named_parameters())``.
        variance: The variance, or a mapping from layer to variance.
    """
    names = layouts_of(mean)
    scales = variance if isinstance(variance, Mapping) else dict.fromkeys(names, variance)
    matrices = {
        name: torch.tensor([[value]], dtype=torch.float64) for name, value in scales.items()
    }
    return kronecker(mean, matrices)


def diagonal(mean: Mapping[str, Tensor], variance: Mapping[str, Tensor]) -> Gaussian:
    """Independent parameters, each with a variance of its own.

    Args:
        mean: Parameters by name.
        variance: Variances by parameter name, in the shape of the parameter.
    """
    for name, tensor in mean.items():
        if name not in variance or variance[name].shape != tensor.shape:
            raise CurvboundError(
                f"The variance of parameter '{name}' is missing or has another shape than "
                f"{tuple(tensor.shape)}: give one number for each entry."
            )
    matrices = {name: layout.join(variance) for name, layout in layouts_of(mean).items()}
    return kronecker(mean, matrices)


def neuron_block(
    mean: Mapping[str, Tensor],
    covariance: Mapping[str, Tensor],
    variance: Mapping[str, Tensor] | None = None,
) -> Gaussian:
    """The same covariance for every row (neuron) of a layer, rows independent (000-C7).

    Each covariance is factorised once, into eigenvectors and eigenvalues.

    Args:
        mean: Parameters by name.
        covariance: Symmetric positive definite ``(columns, columns)`` matrix by layer; the bias is
            the last column.
        variance: Variances of the layers without a covariance, as in :func:`kronecker`.
    """
    layouts = layouts_of(mean)
    variances, bases = dict(variance or {}), {}
    for name, matrix in covariance.items():
        columns = layouts[name].columns if name in layouts else -1
        if matrix.shape != (columns, columns) or not bool(torch.isfinite(matrix).all()):
            raise CurvboundError(
                f"The covariance of '{name}' must be a finite square matrix with one row for each "
                "column of a layer of this network."
            )
        values, bases[name] = torch.linalg.eigh(matrix.detach().to(torch.float64))
        variances[name] = values[None, :]
    return kronecker(mean, variances, right=bases)


def kronecker(
    mean: Mapping[str, Tensor],
    variance: Mapping[str, Tensor],
    left: Mapping[str, Tensor] | None = None,
    right: Mapping[str, Tensor] | None = None,
) -> Gaussian:
    """Independent variances in the eigenbasis left kron right of every layer (001 App. F).

    Args:
        mean: Parameters by name.
        variance: Variances by layer, ``(rows or 1, columns or 1)``, in the rotated coordinates.
        left: Eigenvectors of the output factor by layer, in columns; the identity where missing.
        right: Eigenvectors of the input factor by layer, in columns; the identity where missing.
    """
    left, right = left or {}, right or {}
    layouts = layouts_of(mean)
    unknown = [name for part in (variance, left, right) for name in part if name not in layouts]
    missing = [name for name in layouts if name not in variance]
    if unknown or missing:
        raise CurvboundError(
            f"The network has no block '{unknown[0]}': its blocks are {', '.join(layouts)}."
            if unknown
            else f"There is no variance for block '{missing[0]}': give one for every block."
        )
    blocks = {
        name: Block(layout, _beside(mean, layout, variance[name]), left.get(name), right.get(name))
        for name, layout in layouts.items()
    }
    return Gaussian(mean, blocks)


def _beside(mean: Mapping[str, Tensor], layout: BlockLayout, tensor: Tensor) -> Tensor:
    return tensor.to(mean[layout.parameters[0]].device)
