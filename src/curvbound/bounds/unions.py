"""What it costs to choose a prior after looking at the data: charges in nats, rounded up.

A family of priors P_j with weights pi_j that sum to at most 1 is written down before the data are
seen. A bound that holds for each P_j with probability 1 - pi_j delta then holds for all of them
together with probability 1 - delta; the price is ln(1/pi_j) more nats for the one that is used.
Independent choices multiply their weights, so their charges add: one grid per layer costs the sum
over the layers, and ``tried`` configurations cost ln(tried) on top. Whatever changes only the
posterior (temperature, eigenbasis, learning rate, stopping time) is free.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import SupportsIndex

from curvbound.bounds._budget import log_inverse
from curvbound.bounds._checks import check_count, check_nonnegative, check_positive, check_weights
from curvbound.bounds._rounding import log_up, sum_up
from curvbound.errors import CurvboundError

__all__ = ["LogGrid", "finite_grid_charge", "log_grid_charge", "total_charge", "tried_charge"]

_LOG_PI2_OVER_6 = 0.4977003024707454  # ln(pi^2/6) = 0.49770030247074534..., rounded up
_ON_GRID = 1e-9  # a scale this near to a grid point, in steps, is that grid point


def finite_grid_charge(
    size: SupportsIndex, *, weights: Sequence[float] | None = None, index: SupportsIndex = 0
) -> float:
    """Return ln(1/pi_j) for point ``index`` of a finite grid; ln(size) with equal weights.

    >>> round(finite_grid_charge(50), 2)
    3.91
    """
    size, index = check_count(size, "the size of the grid"), check_count(index, "index", least=0)
    if index >= size:
        raise CurvboundError(f"index {index} is outside a grid of {size} points, which start at 0.")
    if weights is None:
        return log_up(size)
    share = check_weights(weights, size, "the grid")[index]
    return 0.0 if share == 1.0 else log_inverse(share)


def log_grid_charge(j: SupportsIndex) -> float:
    """Return 2 ln(j) + ln(pi^2/6), the price of point j = 1, 2, ... with weight 6/(pi^2 j^2).

    >>> round(log_grid_charge(36), 5)
    7.66474
    """
    return sum_up((2.0 * log_up(_grid_index(j)), _LOG_PI2_OVER_6))


def tried_charge(tried: SupportsIndex) -> float:
    """Return ln(tried) for the best of ``tried`` priors (architectures, seeds, shapes) looked at.

    >>> tried_charge(1), round(tried_charge(1000), 2)
    (0.0, 6.91)
    """
    return log_up(check_count(tried, "tried"))


def total_charge(charges: Iterable[float]) -> float:
    """Return the sum of the charges of independent choices, such as one grid per layer.

    >>> total_charge([log_grid_charge(1), log_grid_charge(1)]) > 2 * 0.4977
    True
    """
    return sum_up([check_nonnegative(charge, "a charge") for charge in charges])


def _grid_index(j: SupportsIndex) -> int:
    try:
        return check_count(j, "j")
    except CurvboundError as error:
        raise CurvboundError(
            f"the grid index j must be a whole number of at least 1, but is {j!s}; the weights "
            "6/(pi^2 j^2) are spent on those, so choose a smaller prior scale."
        ) from error


@dataclass(frozen=True)
class LogGrid:
    """The prior scales c exp(-j/b), j = 1, 2, ..., of 001 Appendix F, with weights 6/(pi^2 j^2).

    Attributes:
        precision: b, the number of grid points per factor e.
        largest: c, a scale just above the largest of the grid.
    """

    precision: float = 100.0
    largest: float = 0.1

    def __post_init__(self) -> None:
        check_positive(self.precision, "precision")
        check_positive(self.largest, "largest")

    def scale(self, j: SupportsIndex) -> float:
        """Return the scale of point j."""
        return self.largest * math.exp(-_grid_index(j) / self.precision)

    def charge(self, j: SupportsIndex) -> float:
        """Return the price of point j in nats, rounded up."""
        return log_grid_charge(j)

    def neighbours(self, scale: float) -> tuple[int, ...]:
        """Return the index of ``scale``, or of the grid points on both sides of it.

        A scale above the first grid point has no weight in the union bound: refused (001-E10).

        >>> LogGrid().neighbours(0.07), LogGrid().neighbours(LogGrid().scale(36))
        ((35, 36), (36,))
        """
        position = self.precision * math.log(
            self.largest / check_positive(scale, "the prior scale")
        )
        nearest = round(position)
        if abs(position - nearest) <= _ON_GRID * max(1, nearest) and nearest >= 1:
            return (nearest,)
        if position < 1.0:
            raise CurvboundError(
                f"the prior scale {scale!s} lies above the first grid point {self.scale(1)!s} and "
                "has no weight in the union bound; choose a smaller scale or a larger grid."
            )
        return math.floor(position), math.ceil(position)

    def choose(self, scale: float, kl: Callable[[float], float]) -> int:
        """Return the neighbour of ``scale`` whose KL plus charge is smaller (001-E11).

        Args:
            scale: The scale an optimiser found, not rounded yet.
            kl: Gives KL(Q || P) for a prior of the scale it is called with.

        >>> LogGrid().choose(0.07, lambda scale: 100 * abs(scale - 0.0698))
        36
        """
        return min(self.neighbours(scale), key=lambda j: kl(self.scale(j)) + self.charge(j))
