"""What the curvature of a network looks like, and how two networks compare."""

from curvbound.structure.overlap import subspace_overlap

__all__ = ["subspace_overlap"]
