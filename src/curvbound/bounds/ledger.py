"""The delta ledger: which events were paid for with which part of the failure probability."""

import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from curvbound.bounds._checks import check_delta
from curvbound.errors import CurvboundError

__all__ = ["DeltaLedger"]


class DeltaLedger(Mapping[str, float]):
    """A failure probability and what it was spent on; it never spends more than it has.

    As a mapping it gives the amount for each event, in the order of spending. The amounts are added
    exactly, as the decimal numbers they are printed as: 0.025 and 0.01 are 0.035 and not a rounding
    error more.

    >>> ledger = DeltaLedger(0.035)
    >>> ledger.spend("PAC-Bayes", 0.025)
    0.025
    >>> ledger.spend_rest("Monte Carlo")
    0.01
    >>> dict(ledger), ledger.remaining
    ({'PAC-Bayes': 0.025, 'Monte Carlo': 0.01}, 0.0)
    """

    def __init__(self, total: float) -> None:
        self._total = check_delta(total)
        self._events: dict[str, float] = {}

    @property
    def total(self) -> float:
        """The failure probability the ledger started with."""
        return self._total

    @property
    def remaining(self) -> float:
        """What is left, rounded down."""
        exact = self._exact_rest()
        value = float(exact)
        return value if _exact(value) <= exact else math.nextafter(value, 0.0)

    def spend(self, event: str, amount: float) -> float:
        """Set ``amount`` aside for ``event`` and return it.

        Raises:
            CurvboundError: The event is already paid for, or more would be spent than there is.
        """
        if not isinstance(event, str) or not event:
            raise CurvboundError("an event of the delta ledger needs a name; pass a short text.")
        if event in self._events:
            raise CurvboundError(
                f'the delta ledger already paid {self._events[event]!s} for "{event}"; '
                "spend on each event once, under its own name."
            )
        amount = check_delta(amount, f'the delta of "{event}"')
        if _exact(amount) > self._exact_rest():
            raise CurvboundError(
                f'"{event}" asks for delta {amount!s}, but only {self.remaining!s} of '
                f"{self._total!s} is left; ask for less or start with more."
            )
        self._events[event] = amount
        return amount

    def spend_rest(self, event: str) -> float:
        """Spend all that is left on ``event`` and return it."""
        return self.spend(event, self.remaining)

    def to_json(self) -> dict[str, Any]:
        """Return the ledger as plain numbers and texts, ready for JSON."""
        return {"total": self._total, "events": dict(self._events)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "DeltaLedger":
        """Rebuild a ledger by spending again what the record says; a false one is refused."""
        try:
            total, events = record["total"], dict(record["events"])
        except (KeyError, TypeError, ValueError) as error:
            raise CurvboundError(
                'a delta ledger is stored as {"total": number, "events": {name: number}}; '
                "the record has another form."
            ) from error
        ledger = cls(total)
        for event, amount in events.items():
            ledger.spend(event, amount)
        return ledger

    def _exact_rest(self) -> Fraction:
        return _exact(self._total) - sum(map(_exact, self._events.values()), Fraction(0))

    def __getitem__(self, event: str) -> float:
        return self._events[event]

    def __iter__(self) -> Iterator[str]:
        return iter(self._events)

    def __len__(self) -> int:
        return len(self._events)

    def __repr__(self) -> str:
        return f"DeltaLedger(total={self._total!r}, events={self._events!r})"


def _exact(amount: float) -> Fraction:
    """Return the decimal number that ``amount`` is printed as."""
    return Fraction(Decimal(repr(amount)))
