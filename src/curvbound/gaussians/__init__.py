"""Distributions over the parameters of a network: the prior and posterior of PAC-Bayes bounds."""

from curvbound.gaussians.distribution import Distribution, Divergence, from_tensors
from curvbound.gaussians.forward import NoisyNetwork
from curvbound.gaussians.gaussian import Gaussian, diagonal, isotropic, kronecker, neuron_block
from curvbound.gaussians.low_rank import LowRank
from curvbound.gaussians.monte_carlo import ErrorCounts, chunk_generator, count_errors, errors_of
from curvbound.gaussians.truncated import TruncatedGaussian, largest_deviation
from curvbound.gaussians.uniform import Uniform

__all__ = [
    "Distribution",
    "Divergence",
    "ErrorCounts",
    "Gaussian",
    "LowRank",
    "NoisyNetwork",
    "TruncatedGaussian",
    "Uniform",
    "chunk_generator",
    "count_errors",
    "diagonal",
    "errors_of",
    "from_tensors",
    "isotropic",
    "kronecker",
    "largest_deviation",
    "neuron_block",
]
