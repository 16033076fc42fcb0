"""Versions of what a result was computed with."""

import platform
from importlib.metadata import version

__all__ = ["versions"]


def versions() -> dict[str, str]:
    """Python and the packages that numbers depend on."""
    packages = ("curvbound", "torch", "numpy", "scipy")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}
