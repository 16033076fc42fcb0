"""Data sets in memory: by name, from files, in disjoint parts, with content hashes."""

from curvbound.datasets.dataset import Dataset
from curvbound.datasets.examples import Examples
from curvbound.datasets.origin import Origin
from curvbound.datasets.registry import load, names
from curvbound.datasets.scaling import SCALINGS, Scaling, fit_scaling

__all__ = ["SCALINGS", "Dataset", "Examples", "Origin", "Scaling", "fit_scaling", "load", "names"]
