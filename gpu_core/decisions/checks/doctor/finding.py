"""One line of `prefect-gpu doctor`."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from gpu_core.decisions.model.errors import sentences

# A remedy that is a command, ready to be copied.
_COMMANDS = ("prefect-gpu ", "prefect ", "kubectl ", "helm ", "pip ", "nvidia-smi ")


class Status(StrEnum):
    """The result of one check."""

    OK = "ok"
    WARNING = "warning"
    """It works, with less than it could, or until something happens."""
    FAILED = "failed"
    """Something does not work until a person changes it."""
    UNKNOWN = "unknown"
    """It could not be checked."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The finding of one check."""

    check: str
    """Its stable name, with the group in front: `prefect.pool`."""
    status: Status
    message: str
    """The finding, with numbers and units."""
    remedy: str | None = None
    """The remedy; None: nothing is needed."""
    details: tuple[str, ...] = ()
    """The facts that it has read, one by one."""

    @property
    def group(self) -> str:
        """The subject of the check: the name's part in front of the dot."""
        return self.check.partition(".")[0]

    @property
    def text(self) -> str:
        """The message and the remedy, as sentences."""
        if self.remedy is None:
            return self.message
        is_command = self.remedy.startswith(_COMMANDS)
        return sentences(self.message, f"run: {self.remedy}" if is_command else self.remedy)


def ok(check: str, message: str, details: Iterable[str] = ()) -> Finding:
    """All is well."""
    return Finding(check, Status.OK, message, details=tuple(details))


def warning(
    check: str, message: str, remedy: str | None = None, details: Iterable[str] = ()
) -> Finding:
    """It works for now."""
    return Finding(check, Status.WARNING, message, remedy, tuple(details))


def failed(check: str, message: str, remedy: str | None = None) -> Finding:
    """It does not work."""
    return Finding(check, Status.FAILED, message, remedy)


def unknown(check: str, message: str, remedy: str | None = None) -> Finding:
    """It could not be checked."""
    return Finding(check, Status.UNKNOWN, message, remedy)


def has_failed(findings: Iterable[Finding]) -> bool:
    """Must a person change something?"""
    return any(finding.status is Status.FAILED for finding in findings)
