"""Networks of the papers by name, with initial weights that can be drawn again.

>>> model = build("LeNet5", (1, 28, 28), 10, init="he", seed=1)
>>> model.conv1
Conv2d(1, 6, kernel_size=(5, 5), stride=(1, 1))
"""

from curvbound.networks.initialise import initialisations, initialise
from curvbound.networks.registry import Specification, build, names, specification

__all__ = ["Specification", "build", "initialisations", "initialise", "names", "specification"]
