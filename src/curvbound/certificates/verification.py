"""What a verification found: one named check after the other."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from curvbound.errors import CurvboundError

__all__ = ["Check", "Status", "Verification", "checked", "not_checked"]

Status = Literal["passed", "failed", "noted", "not checked"]


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        name: What was checked.
        status: ``noted`` is a difference that another machine may make and that decides nothing.
        sentence: What was found.
    """

    name: str
    status: Status
    sentence: str


def checked(name: str, check: Callable[[], str | Check]) -> Check:
    """Run a check, which says what it found or raises what is wrong."""
    try:
        found = check()
    except CurvboundError as error:
        return Check(name, "failed", str(error))
    return found if isinstance(found, Check) else Check(name, "passed", found)


def not_checked(name: str, why: str) -> Check:
    """A check that could not be made."""
    return Check(name, "not checked", why)


@dataclass(frozen=True)
class Verification:
    """The result of :func:`verify`.

    Attributes:
        claim: The main claim in one sentence, as the certificate states it.
        checks: What was checked, and what could not be.
        beyond: What nobody can verify from outside.
    """

    claim: str
    checks: tuple[Check, ...]
    beyond: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return not self.failed

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.status == "failed")

    def __getitem__(self, name: str) -> Check:
        """The check of that name."""
        for check in self.checks:
            if check.name == name:
                return check
        raise KeyError(name)

    def to_json(self) -> dict[str, Any]:
        """Everything as plain texts, ready for JSON."""
        return {
            "ok": self.ok,
            "claim": self.claim,
            "checks": [
                {"name": check.name, "status": check.status, "sentence": check.sentence}
                for check in self.checks
            ],
            "beyond": list(self.beyond),
        }

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        if self.failed:
            return f"The certificate FAILS: {', '.join(check.name for check in self.failed)}."
        left = sum(check.status == "not checked" for check in self.checks)
        rest = f"; {left} could not be made, see why" if left else ""
        return f"All checks that could be made passed{rest}."

    def __str__(self) -> str:
        width = max(len(check.name) for check in self.checks)
        lines = [self.claim]
        lines += [f"  {c.status:11}  {c.name:{width}}  {c.sentence}" for c in self.checks]
        lines += ["  nobody can verify from outside:", *(f"    {item}" for item in self.beyond)]
        return "\n".join([*lines, self.verdict])
