"""A mistake in a file, and where it is."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpu_core.decisions.kubernetes.lint import LintFinding, Severity
from gpu_core.decisions.model.errors import InvalidInput, sentences
from gpu_core.decisions.model.pydantic_errors import InvalidInputs, line_of

INVALID = "invalid-input"
"""The code of what a policy, a prefect.yaml or a template cannot have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFinding:
    """One mistake in one file.

    Attributes:
        severity: How sure it is that something goes wrong.
        code: Stable: people leave out rules by their code.
        place: Which of several objects in the file; None: the file has one.
        path: The field, such as `kubernetes.version`; empty: the whole document.
        line: Where it is in the file; None: unknown.
    """

    severity: Severity
    code: str
    place: str | None = None
    path: str = ""
    line: int | None = None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """The kind of one file, and its errors.

    Attributes:
        file: Its path; `-` is the standard input.
        contents: What it holds, in words such as `policy` or `12 Kubernetes objects`.
        unchecked: What was not checked, and why.
    """

    file: str
    contents: str
    findings: tuple[FileFinding, ...] = ()
    unchecked: tuple[str, ...] = field(default=())

    def count(self, severity: Severity) -> int:
        """How many of its findings are of this severity?"""
        return sum(finding.severity is severity for finding in self.findings)


def of_manifest(
    finding: LintFinding, place: str, lines: Mapping[str, int], document_line: int
) -> FileFinding:
    """A finding of the manifests' lint with its line in the file.

    Args:
        place: The object, such as `Deployment gpu/worker`.
        lines: The line of each field of the document, by its dotted path.
        document_line: Where the document begins, for what is missing in it.
    """
    return FileFinding(
        severity=finding.severity,
        code=finding.code,
        place=place,
        path=finding.path,
        line=_line_of(finding.path, lines) or document_line,
        message=sentences(finding.problem, finding.remedy),
    )


def of_error(error: InvalidInput, source: str, *, place: str | None = None) -> list[FileFinding]:
    """The findings for a file that its reader refuses, field by field.

    Args:
        error: One mistake, or several. Their fields begin with the source, and the line if known.
        place: Which of several objects in the file.
    """
    errors = error.errors if isinstance(error, InvalidInputs) else (error,)
    return [_of_one(each, source, place) for each in errors]


def _of_one(error: InvalidInput, source: str, place: str | None) -> FileFinding:
    in_file = re.fullmatch(
        rf"{re.escape(source)}(?::(?P<line>\d+)(?P<column>:\d+)?)?(?:: (?P<path>.*))?",
        error.field,
        re.DOTALL,
    )
    path, line = error.field, None
    message = without_field(error)
    if in_file is not None:
        path = in_file["path"] or ""
        line = int(in_file["line"]) if in_file["line"] else None
        if in_file["column"]:
            message = f"column {in_file['column'][1:]}: {message}"
    return FileFinding(
        severity=Severity.ERROR, code=INVALID, place=place, path=path, line=line, message=message
    )


def without_field(error: InvalidInput) -> str:
    """The error and its remedy, for a place that names the field itself."""
    return str(error.at("")).strip()


def _line_of(path: str, lines: Mapping[str, int]) -> int | None:
    """The line of this field, or of the nearest one around it that is there."""
    return line_of(re.sub(r"\[(\d+)\]", r".\1", path), lines)
