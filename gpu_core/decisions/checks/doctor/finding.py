"""One line of `prefect-gpu doctor`."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How one check ended."""

    OK = "ok"
    WARNING = "warning"
    """It works, with less than it could, or until something happens."""
    FAILED = "failed"
    """Something does not work until a person changes it."""
    UNKNOWN = "unknown"
    """Nobody could look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found.

    Attributes:
        check: Its stable name, with the group in front: `prefect.pool`.
        status: How it ended.
        message: What was found, with numbers and units.
        remedy: What helps; None: nothing is needed.
        details: What it has looked at, one by one.
    """

    check: str
    status: Status
    message: str
    remedy: str | None = None
    details: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """What it is about: the name's part in front of the dot."""
        return self.check.partition(".")[0]


def ok(check: str, message: str, details: Iterable[str] = ()) -> Finding:
    """All is well."""
    return Finding(check=check, status=Status.OK, message=message, details=tuple(details))


def warning(
    check: str, message: str, remedy: str | None = None, details: Iterable[str] = ()
) -> Finding:
    """It works for now."""
    return Finding(
        check=check,
        status=Status.WARNING,
        message=message,
        remedy=remedy,
        details=tuple(details),
    )


def failed(
    check: str, message: str, remedy: str | None = None, details: Iterable[str] = ()
) -> Finding:
    """It does not work."""
    return Finding(
        check=check, status=Status.FAILED, message=message, remedy=remedy, details=tuple(details)
    )


def unknown(check: str, message: str, remedy: str | None = None) -> Finding:
    """Nobody could look."""
    return Finding(check=check, status=Status.UNKNOWN, message=message, remedy=remedy)


def has_failed(findings: Iterable[Finding]) -> bool:
    """Must a person change something?"""
    return any(finding.status is Status.FAILED for finding in findings)
