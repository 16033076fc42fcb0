"""Learning-rate schedules: the factor on the initial rate as a function of progress.

A schedule is any callable from progress in [0, 1) (steps done over all steps) to a factor, so one
schedule fits any number of epochs. Also accepted are the schedulers of
`torch.optim.lr_scheduler`, as a class or a `functools.partial` of one; those are stepped once an
epoch, as is usual with them.
"""

import difflib
import functools
import math
from collections.abc import Callable
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from curvbound.errors import CurvboundError

__all__ = ["SCHEDULES", "Schedule", "drops", "make_scheduler", "resolve_schedule"]

Schedule = Callable[[float], float]


def constant(progress: float) -> float:
    """The initial rate throughout."""
    return 1.0


def cosine(progress: float) -> float:
    """Half a cosine from 1 down to 0."""
    return 0.5 * (1.0 + math.cos(math.pi * progress))


def linear_tail(progress: float) -> float:
    """Constant for half the time, linear down to 0.01 at 90 %, then constant (004-E15)."""
    if progress <= 0.5:
        return 1.0
    return max(0.01, 1.0 - 0.99 * (progress - 0.5) / 0.4)


def one_cycle(progress: float) -> float:
    """Linear up from 0.04 to 1 over the first 20 %, then half a cosine down to 0."""
    if progress < 0.2:
        return 0.04 + 0.96 * progress / 0.2
    return cosine((progress - 0.2) / 0.8)


def drops(at: tuple[float, ...], factor: float) -> Schedule:
    """A schedule that multiplies the rate by `factor` at each of the fractions in `at`.

    >>> halves = drops((0.5, 0.75), 0.1)
    >>> [round(halves(p), 3) for p in (0.0, 0.49, 0.5, 0.75)]
    [1.0, 1.0, 0.1, 0.01]
    """
    return functools.partial(_drops, at=at, factor=factor)


def _drops(progress: float, *, at: tuple[float, ...], factor: float) -> float:
    return float(factor ** sum(progress >= fraction for fraction in at))


SCHEDULES: dict[str, Schedule] = {
    "constant": constant,
    "cosine": cosine,
    "linear-tail": linear_tail,
    "one-cycle": one_cycle,
    "tenth-at-50-75": drops((0.5, 0.75), 0.1),
    "fifth-at-30-60-80": drops((0.3, 0.6, 0.8), 0.2),
}


def resolve_schedule(schedule: str | Callable[..., Any]) -> Schedule | None:
    """The function of progress that `schedule` names or is; None for a torch scheduler."""
    if isinstance(schedule, str):
        if schedule not in SCHEDULES:
            raise CurvboundError(
                f"There is no schedule {schedule!r}{_suggestion(schedule)}; "
                f"known are {', '.join(SCHEDULES)}."
            )
        return SCHEDULES[schedule]
    if _torch_scheduler_class(schedule) is not None:
        return None
    return schedule


def make_scheduler(schedule: str | Callable[..., Any], optimizer: Optimizer) -> LRScheduler | None:
    """The torch scheduler that `schedule` makes for this optimiser; None if it makes none."""
    found = None if isinstance(schedule, str) else _torch_scheduler_class(schedule)
    if found is None:
        return None
    if issubclass(found, ReduceLROnPlateau):
        raise CurvboundError(
            "ReduceLROnPlateau needs a measured quantity, which a recipe does not name: "
            "use a schedule that depends on the epoch alone."
        )
    assert callable(schedule)
    scheduler: LRScheduler = schedule(optimizer)
    return scheduler


def _torch_scheduler_class(schedule: Callable[..., Any]) -> type[LRScheduler] | None:
    base = schedule.func if isinstance(schedule, functools.partial) else schedule
    return base if isinstance(base, type) and issubclass(base, LRScheduler) else None


def _suggestion(name: str) -> str:
    close = difflib.get_close_matches(name, SCHEDULES, 1)
    return f" (did you mean {close[0]!r}?)" if close else ""
