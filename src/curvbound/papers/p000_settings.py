"""Paper 000, Figures 2 to 4: which networks on which data, and how much is computed."""

from dataclasses import dataclass

__all__ = ["DELTA", "MORE_CLASSES", "PROFILES", "TWO_CLASSES", "Profile", "Task"]

DELTA = 0.05
"""Failure probability; the paper does not give its own."""


@dataclass(frozen=True)
class Task:
    """A data set and the network 000 trains on it.

    Attributes:
        data: Name of the data set.
        network: Name of the network.
        scaling: Constant scaling of the inputs.
        provable: Whether the paper finds non-vacuous bounds.
        examples: Training examples in the quick profile; None: all.
        epochs: Most epochs in the quick profile.
    """

    data: str
    network: str
    scaling: str
    provable: bool
    examples: int | None
    epochs: int


@dataclass(frozen=True)
class Profile:
    """How much is computed.

    The prior variances are written down here, before any data are seen, and the choice among them
    is charged (000-E7).

    Attributes:
        name: ``quick`` or ``full``.
        shortened: Whether training uses the smaller numbers of a task.
        scales: Prior variances lambda.
        betas: Weights of the KL term for the closed forms.
        oracle_betas: The same for the lower bound.
        seen: Examples on which accuracies are estimated; None: all.
        low_rank: Gradients of the low-rank posterior, which the paper does not have; 0: none.
    """

    name: str
    shortened: bool
    scales: tuple[float, ...]
    betas: tuple[float, ...]
    oracle_betas: tuple[float, ...]
    seen: int | None
    low_rank: int


def _decades(first: float, last: float, step: float) -> tuple[float, ...]:
    """Powers of ten from ``first`` to ``last``, exponents ``step`` apart."""
    return tuple(10 ** (first + step * k) for k in range(round((last - first) / step) + 1))


PROFILES = {
    "quick": Profile(
        "quick",
        True,
        _decades(-3.5, -0.5, 0.5),
        _decades(-4, 1, 1),
        _decades(-10, -2, 0.5),
        2000,
        0,
    ),
    "full": Profile(
        "full",
        False,
        _decades(-5, 0, 0.5),
        _decades(-6, 1, 0.5),
        _decades(-12, -1, 0.25),
        None,
        100,
    ),
}


def _mnist(name: str) -> Task:
    return Task(name, "F-300^2", "unit", True, None, 10)


def _cifar(name: str) -> Task:
    return Task(name, "F-200^2", "symmetric", False, 10_000, 80)


TWO_CLASSES = (_mnist("mnist-2"), _cifar("cifar10-2"))
MORE_CLASSES = (_mnist("mnist-5"), _cifar("cifar10-5"), _mnist("mnist"), _cifar("cifar10"))
