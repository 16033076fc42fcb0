"""Curvature of the loss: matrix-free operators and structured approximations."""

from curvbound.curvature.diagonal import diagonal, hessian_diagonal
from curvbound.curvature.eigenpairs import Eigenpairs, top_eigenpairs
from curvbound.curvature.exact_trace import gauss_newton_trace
from curvbound.curvature.fisher import fisher
from curvbound.curvature.gauss_newton import gauss_newton
from curvbound.curvature.gram import gram
from curvbound.curvature.hessian import hessian
from curvbound.curvature.interop import as_operator, to_scipy
from curvbound.curvature.kronecker import KroneckerFactors, kronecker
from curvbound.curvature.kronecker_block import KroneckerBlock
from curvbound.curvature.logdet import LogDeterminant, logdet
from curvbound.curvature.neuron_blocks import neuron_blocks
from curvbound.curvature.spectrum import Spectrum, spectrum
from curvbound.curvature.trace import frobenius_squared, trace

__all__ = [
    "Eigenpairs",
    "KroneckerBlock",
    "KroneckerFactors",
    "LogDeterminant",
    "Spectrum",
    "as_operator",
    "diagonal",
    "fisher",
    "frobenius_squared",
    "gauss_newton",
    "gauss_newton_trace",
    "gram",
    "hessian",
    "hessian_diagonal",
    "kronecker",
    "logdet",
    "neuron_blocks",
    "spectrum",
    "to_scipy",
    "top_eigenpairs",
    "trace",
]
