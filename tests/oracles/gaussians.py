"""Dense references for distributions over parameters: covariance matrices and mpmath."""

import math

import mpmath
import numpy as np
import torch
from torch import Tensor, nn

from curvbound.gaussians import Gaussian, diagonal, isotropic, kronecker, neuron_block
from curvbound.gaussians.layout import layouts_of

mpmath.mp.dps = 50


def network_parameters(seed: int = 0, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """A dense layer, a convolution without bias, a normalisation layer and a bare parameter."""
    generator = torch.Generator().manual_seed(seed)
    shapes = {
        "fc.weight": (3, 4),
        "fc.bias": (3,),
        "conv.weight": (2, 1, 2, 1),
        "norm.weight": (2,),
        "norm.bias": (2,),
        "scale": (),
    }
    return {
        name: torch.randn(shape, generator=generator, dtype=dtype) for name, shape in shapes.items()
    }


def orthogonal(size: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64))[0]


def positive(shape: tuple[int, ...], seed: int, low: float = 0.05, high: float = 2.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    uniform = torch.rand(shape, generator=generator, dtype=torch.float64)
    return low * (high / low) ** uniform


def block_covariance(gaussian: Gaussian, name: str) -> Tensor:
    """Covariance of the row-major layer matrix."""
    block = gaussian.blocks[name]
    rows, columns = block.layout.rows, block.layout.columns
    left = torch.eye(rows, dtype=torch.float64) if block.left is None else block.left
    right = torch.eye(columns, dtype=torch.float64) if block.right is None else block.right
    basis = torch.kron(left, right)
    return basis @ torch.diag(block.variance.expand(rows, columns).reshape(-1)) @ basis.T


def flat_mean(gaussian: Gaussian) -> Tensor:
    """Mean as a vector, layer matrix after layer matrix."""
    joined = [layout.join(gaussian.mean).reshape(-1) for layout in gaussian.layouts.values()]
    return torch.cat(joined).to(torch.float64)


def dense_covariance(gaussian: Gaussian) -> Tensor:
    return torch.block_diag(*(block_covariance(gaussian, name) for name in gaussian.blocks))


def flatten(gaussian: Gaussian, parameters: dict[str, Tensor]) -> Tensor:
    return torch.cat(
        [layout.join(parameters).reshape(-1) for layout in gaussian.layouts.values()]
    ).to(torch.float64)


def dense_kl(mean: Tensor, covariance: Tensor, prior_mean: Tensor, prior: Tensor) -> float:
    difference = mean - prior_mean
    solved = torch.linalg.solve(prior, covariance)
    quadratic = difference @ torch.linalg.solve(prior, difference)
    logs = torch.logdet(prior) - torch.logdet(covariance)
    return 0.5 * float(torch.trace(solved) - len(mean) + logs + quadratic)


def exact_gaussian_kl(variance: float, prior: float, distance: float) -> mpmath.mpf:
    """KL of two Gaussians on the line, 50 digits."""
    ratio = mpmath.mpf(variance) / mpmath.mpf(prior)
    squared = mpmath.mpf(distance) ** 2 / mpmath.mpf(prior)
    return (ratio - 1 - mpmath.log(ratio) + squared) / 2


def covariance_statistic(samples: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> float:
    """Largest standardised deviation of sample means and second moments from a Gaussian law."""
    centred = samples - mean
    n = len(samples)
    means = centred.mean(0) / np.sqrt(np.diag(covariance) / n)
    diagonal = np.diag(covariance)
    spread = np.sqrt((covariance**2 + np.outer(diagonal, diagonal)) / n)
    seconds = (centred.T @ centred / n - covariance) / spread
    return max(np.abs(means).max(), np.abs(seconds).max())


def normal_limit(comparisons: int, level: float = 1e-6) -> float:
    """Two-sided limit for that many standard normal numbers together (union bound)."""
    from scipy.special import erfcinv

    return math.sqrt(2.0) * float(erfcinv(level / comparisons))


STRUCTURES = ("one", "isotropic", "diagonal", "neuron_block", "kronecker")


def random_gaussian(
    mean: dict[str, Tensor], structure: str, seed: int = 0, low: float = 0.05, high: float = 2.0
) -> Gaussian:
    """A Gaussian of the given structure with variances between ``low`` and ``high``."""
    layouts = layouts_of(mean)
    if structure == "one":
        return isotropic(mean, (low * high) ** 0.5)
    if structure == "isotropic":
        steps = {name: index / len(layouts) for index, name in enumerate(layouts, start=1)}
        return isotropic(mean, {name: low * (high / low) ** step for name, step in steps.items()})
    if structure == "diagonal":
        shapes = {name: tuple(tensor.shape) for name, tensor in mean.items()}
        return diagonal(
            mean, {n: positive(s, seed + i, low, high) for i, (n, s) in enumerate(shapes.items())}
        )
    bases = {name: orthogonal(b.columns, seed + 7) for name, b in layouts.items()}
    if structure == "neuron_block":
        spectra = {n: positive((b.columns,), seed + 11, low, high) for n, b in layouts.items()}
        return neuron_block(mean, {n: bases[n] * spectra[n] @ bases[n].T for n in layouts})
    return kronecker(
        mean,
        {n: positive((b.rows, b.columns), seed + 3, low, high) for n, b in layouts.items()},
        left={n: orthogonal(b.rows, seed + 5) for n, b in layouts.items()},
        right={n: basis for n, basis in bases.items() if n != "norm"},
    )


def explicit_outputs(
    model: nn.Module, gaussian: Gaussian, inputs: Tensor, draws: int, seed: int
) -> Tensor:
    """Outputs ``(draws, examples, ...)`` for weights from the dense covariance."""
    covariance = dense_covariance(gaussian)
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(draws, len(covariance), generator=generator, dtype=torch.float64)
    flat = flat_mean(gaussian) + normal @ torch.linalg.cholesky(covariance).T
    weights: dict[str, Tensor] = {}
    start = 0
    for layout in gaussian.layouts.values():
        part = flat[:, start : start + layout.size]
        weights.update(layout.split(part.reshape(draws, layout.rows, layout.columns)))
        start += layout.size
    weights = {name: tensor.to(gaussian.mean[name]) for name, tensor in weights.items()}
    with torch.no_grad():
        return torch.func.vmap(lambda drawn: torch.func.functional_call(model, drawn, (inputs,)))(
            weights
        )


def law_difference(first: np.ndarray, second: np.ndarray, seed: int = 0) -> float:
    """Smallest p-value, times the number of tests, that two samples of vectors have one law.

    Kolmogorov-Smirnov tests of random projections, coordinates, squares and products: differences
    of the mean, of the covariance and of the joint shape all show.
    """
    from scipy.stats import ks_2samp

    rng = np.random.default_rng(seed)
    first, second = first.reshape(len(first), -1), second.reshape(len(second), -1)
    width = first.shape[1]
    directions = rng.standard_normal((width, 12))
    pair = rng.integers(width, size=(2, 6))

    def features(x: np.ndarray) -> np.ndarray:
        centred = x - np.concatenate([first, second]).mean(0)
        products = centred[:, pair[0]] * centred[:, pair[1]]
        return np.concatenate([x @ directions, x[:, :4], products, (centred**2).sum(1)[:, None]], 1)

    a, b = features(first), features(second)
    smallest = min(ks_2samp(a[:, i], b[:, i], method="asymp").pvalue for i in range(a.shape[1]))
    return float(smallest) * a.shape[1]
