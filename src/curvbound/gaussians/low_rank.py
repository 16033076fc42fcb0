"""Low rank plus diagonal: the posterior of a full sampled Fisher matrix."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from curvbound.errors import CurvboundError
from curvbound.gaussians.distribution import Distribution, Divergence
from curvbound.gaussians.gaussian import Gaussian, isotropic
from curvbound.gaussians.numerics import RELATIVE_ERROR, excess, upward

__all__ = ["COVARIANCE", "LowRank"]

COVARIANCE = "(covariance)"
"""Entry of a divergence for the shape of a covariance that joins all layers."""

_LOG_TWO_PI = math.log(2.0 * math.pi)


class LowRank(Distribution):
    """N(mean, beta (J^T J + diag(beta / l))^-1) for r scaled gradients J (000 eq. 6, 000-C8).

    With K = J diag(l / beta)^(1/2) the covariance is diag(l)^(1/2) (I + K^T K)^-1 diag(l)^(1/2).
    Everything goes through the eigenvalues e and eigenvectors U of the r x r matrix K K^T:

    * ln det(I + K^T K) = sum log1p(e), the determinant lemma;
    * (I + K^T K)^(-1/2) = I - K^T U diag(1 / (s^2 + s)) U^T K with s = sqrt(1 + e), the square root
      of the Woodbury formula without any division by e: a draw costs two products with J.

    >>> posterior = LowRank({"w": torch.zeros(3)}, torch.tensor([[1.0, 0.0, 0.0]]), 0.5, 2.0)
    >>> round(posterior.kl(isotropic({"w": torch.zeros(3)}, 2.0)).total, 6)  # (ln 5 - 4/5) / 2
    0.404719

    Args:
        mean: Parameters by name.
        gradients: J, ``(r, P)``, in the order of the flattened parameters of ``mean``. For a Fisher
            matrix of the mean loss: r sampled per-example gradients divided by sqrt(r).
        beta: The temperature.
        prior_variance: l, one number or one for each layer.
    """

    kind: ClassVar[str] = "low_rank"

    def __init__(
        self,
        mean: Mapping[str, Tensor],
        gradients: Tensor,
        beta: float,
        prior_variance: float | Mapping[str, float],
    ) -> None:
        super().__init__(mean)
        blocks = isotropic(self.mean, prior_variance).blocks
        self.prior_variance = {name: float(block.variance) for name, block in blocks.items()}
        self.beta = float(beta)
        if not 0.0 < self.beta < math.inf:
            raise CurvboundError(f"beta must be positive and finite, not {beta}.")
        if gradients.dim() != 2 or gradients.shape[1] != self.size or not len(gradients):
            raise CurvboundError(
                f"The gradients have shape {tuple(gradients.shape)} but must have at least one row "
                f"and {self.size} columns, one for each parameter."
            )
        if not bool(torch.isfinite(gradients).all()):
            raise CurvboundError("The gradients contain NaN or infinite values.")
        self.gradients = gradients.detach().clone(memory_format=torch.contiguous_format)
        self._columns = _columns(self.mean)
        self._layer = {p: n for n, layout in self.layouts.items() for p in layout.parameters}
        self._grams = self._layer_grams()
        gram = torch.stack(list(self._grams.values())).sum(0)
        values, self._vectors = torch.linalg.eigh(gram)
        if not bool(torch.isfinite(values).all()):
            raise CurvboundError("The gradients are too large for the given beta and variance.")
        self._values = values.clamp_min(0.0)

    def sample(
        self, generator: torch.Generator, *, dtype: torch.dtype | None = None
    ) -> dict[str, Tensor]:
        """Draw all parameters, in float64 until the last rounding."""
        device = self.gradients.device
        normal = torch.randn(
            self.size, generator=generator, dtype=torch.float64, device=generator.device
        ).to(device)
        seen = sum(self._part(name) @ normal[part] for name, part in self._columns.items())
        roots = (1.0 + self._values).sqrt()
        shrink = self._vectors @ ((self._vectors.T @ seen) / (roots * roots + roots))
        drawn = {}
        for name, part in self._columns.items():
            noise = normal[part] - self._part(name).T @ shrink
            noise *= self.prior_variance[self._layer[name]] ** 0.5
            mean = self.mean[name]
            full = mean.to(torch.float64) + noise.view(mean.shape).to(mean.device)
            drawn[name] = full.to(dtype or mean.dtype)
        return drawn

    def kl(self, prior: Distribution) -> Divergence:
        """KL(self || prior) for a prior that is isotropic in every layer, rounded up.

        With r_l = l / l' the ratio of this distribution's l to the prior's variance in a layer of
        n_l parameters, and t_l = tr((I + K K^T)^-1 K_l K_l^T), the shape contributes
        1/2 sum_l n_l (r_l - 1 - ln r_l) + 1/2 sum [log1p(e) - e/(1+e)] + 1/2 sum_l (1 - r_l) t_l.
        The mean is accounted for layer by layer, the shape as ``(covariance)``.
        """
        if not isinstance(prior, Gaussian) or not all(b.isotropic for b in prior.blocks.values()):
            raise CurvboundError(
                "The divergence of a low-rank Gaussian is available for priors that are Gaussian "
                "with one variance in every layer: use isotropic()."
            )
        self._require_same_parameters(prior)
        layers, scales = {}, {n: float(block.variance) for n, block in prior.blocks.items()}
        for name, difference in prior._differences(self.mean).items():
            shift = 0.5 * float(difference.square().sum()) / scales[name]
            layers[name] = upward(shift, RELATIVE_ERROR * shift)
        layers[COVARIANCE] = self._shape(scales)
        return Divergence(layers)

    def _shape(self, scales: Mapping[str, float]) -> float:
        """What the covariance adds to the divergence, with a bound on the rounding of the Grams."""
        e = self._values
        # log1p(e) - e/(1+e) is the excess r - 1 - ln r at r = 1/(1+e).
        own = 0.5 * float(excess(1.0 / (1.0 + e), torch.ones_like(e)).sum())
        inverse = (self._vectors / (1.0 + e)) @ self._vectors.T
        rounding = math.sqrt(len(e)) * (self.size * 2.0**-53 + len(e) * 2.0**-50) * float(e.sum())
        terms, error = [own], RELATIVE_ERROR * own + 0.25 * rounding
        for name, gram in self._grams.items():
            mine, theirs = self.prior_variance[name], scales[name]
            if mine == theirs:
                continue
            ratio = torch.tensor([mine, theirs], dtype=torch.float64)
            wide = 0.5 * self.layouts[name].size * float(excess(ratio[0], ratio[1]))
            seen = 0.5 * (1.0 - mine / theirs) * float((inverse * gram).sum())
            terms += [wide, seen]
            error += RELATIVE_ERROR * (wide + abs(seen)) + 2.0 * abs(1.0 - mine / theirs) * rounding
        return upward(math.fsum(terms), error)

    def _log_density(self, parameters: Mapping[str, Tensor]) -> tuple[float, float]:
        squares, logs = [], []
        seen = torch.zeros_like(self._values)
        for name, difference in self._differences(parameters).items():
            layout, scale = self.layouts[name], self.prior_variance[name]
            for part, matrix in layout.split(difference / scale**0.5).items():
                seen += self._part(part) @ matrix.reshape(-1).to(seen.device)
            squares.append(float(difference.square().sum()) / scale)
            logs.append(layout.size * (_LOG_TWO_PI + math.log(scale)))
        squares.append(float(seen.square().sum()))
        logs.append(-float(self._values.log1p().sum()))
        gram = math.sqrt(len(seen)) * self.size * 2.0**-53 * float(self._values.sum())
        error = gram * (1.0 + 2.0 * sum(squares[:-1])) + RELATIVE_ERROR * (
            math.fsum(squares) + math.fsum(map(abs, logs))
        )
        return -0.5 * (math.fsum(squares) + math.fsum(logs)), error

    def _part(self, name: str) -> Tensor:
        """Columns of K that belong to one parameter, in float64."""
        scale = math.sqrt(self.prior_variance[self._layer[name]] / self.beta)
        return self.gradients[:, self._columns[name]].to(torch.float64) * scale

    def _layer_grams(self) -> dict[str, Tensor]:
        grams = {}
        for name, layout in self.layouts.items():
            parts = [self._part(parameter) for parameter in layout.parameters]
            grams[name] = torch.stack([part @ part.T for part in parts]).sum(0)
        return grams

    def to_tensors(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors ``mean/PARAMETER``, ``gradients``, ``beta`` and ``variance/BLOCK``."""
        tensors = {f"mean/{name}": tensor for name, tensor in self.mean.items()}
        tensors["gradients"] = self.gradients
        tensors["beta"] = torch.tensor(self.beta, dtype=torch.float64)
        for name, scale in self.prior_variance.items():
            tensors[f"variance/{name}"] = torch.tensor(scale, dtype=torch.float64)
        return tensors, self._describe()

    @classmethod
    def _from_tensors(cls, mean: dict[str, Tensor], tensors: Mapping[str, Tensor]) -> "LowRank":
        numbers = {k: t for k, t in tensors.items() if k == "beta" or k.startswith("variance/")}
        if "gradients" not in tensors or "beta" not in numbers:
            raise CurvboundError("The stored low-rank distribution lacks its gradients or beta.")
        if any(tensor.numel() != 1 for tensor in numbers.values()):
            raise CurvboundError(
                "In the stored low-rank distribution beta and variances must be numbers."
            )
        scales = {k.removeprefix("variance/"): float(t) for k, t in numbers.items() if k != "beta"}
        return cls(mean, tensors["gradients"], float(numbers["beta"]), scales)


def _columns(mean: Mapping[str, Tensor]) -> dict[str, slice]:
    columns, start = {}, 0
    for name, tensor in mean.items():
        columns[name] = slice(start, start + tensor.numel())
        start += tensor.numel()
    return columns
