"""Distributions over the parameters of a network: the prior and posterior of PAC-Bayes bounds."""

from curvbound.gaussians.distribution import Distribution, Divergence, from_tensors
from curvbound.gaussians.forward import NoisyNetwork
from curvbound.gaussians.gaussian import Gaussian, diagonal, isotropic, kronecker, neuron_block
from curvbound.gaussians.monte_carlo import ErrorCounts, chunk_generator, count_errors, errors_of

__all__ = [
    "Distribution",
    "Divergence",
    "ErrorCounts",
    "Gaussian",
    "NoisyNetwork",
    "chunk_generator",
    "count_errors",
    "diagonal",
    "errors_of",
    "from_tensors",
    "isotropic",
    "kronecker",
    "neuron_block",
]
