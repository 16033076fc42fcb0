"""Float64 arithmetic that errs upward.

Sums, products, quotients and square roots are correctly rounded by IEEE 754, so that one step to
the next float above covers them. Logarithms and exponentials are only nearly so in the usual
mathematics libraries (below one unit in the last place); they get two steps. Results that are
exact because an operand is 0 or 1 stay exact, so that trivial cases look trivial.
"""

import math
from collections.abc import Iterable

__all__ = ["add_up", "divide_up", "log_up", "multiply_up", "sqrt_up", "sum_up", "up"]


def up(value: float, steps: int = 1) -> float:
    """Return the float ``steps`` places above ``value`` (infinity stays)."""
    for _ in range(steps):
        value = math.nextafter(value, math.inf)
    return value


def add_up(x: float, y: float) -> float:
    """Return a float at or above x + y."""
    return x + y if x == 0.0 or y == 0.0 else up(x + y)


def multiply_up(x: float, y: float) -> float:
    """Return a float at or above x * y for x, y >= 0."""
    return x * y if x in (0.0, 1.0) or y in (0.0, 1.0) else up(x * y)


def divide_up(x: float, y: float) -> float:
    """Return a float at or above x / y for y > 0."""
    return x if x == 0.0 or y == 1.0 else up(x / y)


def sqrt_up(x: float) -> float:
    """Return a float at or above the square root of x >= 0."""
    return x if x in (0.0, 1.0) else up(math.sqrt(x))


def log_up(x: float) -> float:
    """Return a float at or above log(x) for x > 0."""
    return 0.0 if x == 1.0 else up(math.log(x), 2)


def sum_up(values: Iterable[float]) -> float:
    """Return a float at or above the sum of the values; their order does not matter."""
    terms = [value for value in values if value]
    return up(math.fsum(terms)) if len(terms) > 1 else math.fsum(terms)
