"""Distributions over the parameters of a network: the prior and posterior of PAC-Bayes bounds."""

from curvbound.gaussians.distribution import Distribution, Divergence, from_tensors
from curvbound.gaussians.gaussian import Gaussian, diagonal, isotropic, kronecker, neuron_block

__all__ = [
    "Distribution",
    "Divergence",
    "Gaussian",
    "diagonal",
    "from_tensors",
    "isotropic",
    "kronecker",
    "neuron_block",
]
