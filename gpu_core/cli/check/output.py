"""Findings in files as text for people and as JSON for programs."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpu_core.cli.shared.terminal import wrapped
from gpu_core.decisions.checks.files.findings import FileFinding, FileReport
from gpu_core.decisions.kubernetes.lint import Severity
from gpu_core.decisions.model.units import count


def as_text(reports: Sequence[FileReport]) -> str:
    """One paragraph for each file, and the sum at the end."""
    lines = [line for report in reports for line in _lines(report)]
    return "\n".join([*lines, _total(reports)])


def as_json(reports: Sequence[FileReport]) -> str:
    """The same as a document."""
    return json.dumps(
        {
            "files": [_file(report) for report in reports],
            "errors": _sum(reports, Severity.ERROR),
            "warnings": _sum(reports, Severity.WARNING),
        },
        indent=2,
        ensure_ascii=False,
    )


def _lines(report: FileReport) -> Iterator[str]:
    contents = "" if Path(report.file).name == report.contents else f": {report.contents}"
    verdict = "" if report.findings else ": no issues found"
    yield wrapped(f"{report.file}{contents}{verdict}", "  ")
    for finding in report.findings:
        yield wrapped(f"  {_finding(finding)}", "    ")
    for what in report.unchecked:
        yield wrapped(f"  not validated: {what}", "    ")


def _finding(finding: FileFinding) -> str:
    line = "" if finding.line is None else f"line {finding.line}"
    where = ": ".join(part for part in (line, finding.place, finding.path) if part)
    return f"{finding.severity.value} {finding.code} at {where or 'the file'}: {finding.message}"


def _total(reports: Sequence[FileReport]) -> str:
    errors, warnings = (_sum(reports, each) for each in (Severity.ERROR, Severity.WARNING))
    files = count(len(reports), "file")
    return f"{files}: {count(errors, 'error')}, {count(warnings, 'warning')}"


def _sum(reports: Sequence[FileReport], severity: Severity) -> int:
    return sum(report.count(severity) for report in reports)


def _file(report: FileReport) -> dict[str, object]:
    return {
        "file": report.file,
        "contents": report.contents,
        "findings": [
            {
                "severity": finding.severity.value,
                "code": finding.code,
                "object": finding.place,
                "path": finding.path,
                "line": finding.line,
                "message": finding.message,
            }
            for finding in report.findings
        ],
        "unchecked": list(report.unchecked),
    }
