"""What an examination finds; ``docs/schemas/doctor.json`` describes its JSON."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from lakeindex.errors import LakeIndexError
from lakeindex.showing.json_result import SCHEMA_VERSION, JsonResult


class CheckVerdict(StrEnum):
    """How a check ended: fine, may become a problem, a run that needs this cannot work."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        cure: what to do; None where nothing has to be done.
        error: class of the error that a run would end with; None unless it fails.
        exit_code: that error's exit code; 0 unless it fails.
    """

    name: str
    verdict: CheckVerdict
    found: str
    cure: str | None = None
    error: str | None = None
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class Diagnosis(JsonResult):
    """All checks, in the order they were made."""

    shown_by: ClassVar[str] = "facts:show_diagnosis"

    checks: tuple[Check, ...]
    schema_version: int = SCHEMA_VERSION

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.verdict is CheckVerdict.FAIL)


def ok(name: str, found: str) -> Check:
    """Nothing to do."""
    return Check(name, CheckVerdict.OK, found)


def warn(name: str, found: str, cure: str) -> Check:
    """It works, or may not matter."""
    return Check(name, CheckVerdict.WARN, found, cure)


def fail(name: str, found: str, cure: str, error: str = "UsageError", exit_code: int = 2) -> Check:
    """It does not work."""
    return Check(name, CheckVerdict.FAIL, found, cure, error, exit_code)


def failed_with(name: str, error: Exception) -> Check:
    """A check that ended with an exception: a run would, too."""
    kind = type(error).__name__
    if isinstance(error, LakeIndexError):
        return fail(name, error.message, error.hint or "see the message", kind, error.exit_code)
    return fail(name, f"{kind}: {error}", "see the message", kind, 1)
