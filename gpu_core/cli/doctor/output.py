"""Findings of `doctor` as text for people and as JSON for programs."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace

from gpu_core.cli.shared.terminal import wrapped
from gpu_core.decisions.checks.doctor.finding import Finding, Status
from gpu_core.decisions.model.units import count

_WIDTH = max(len(status.value) for status in Status)


def as_text(findings: Sequence[Finding], *, with_details: bool) -> str:
    """One line for each finding, by group, and the sum at the end."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.group, []).append(finding)
    lines = []
    for group, members in groups.items():
        lines.append(group)
        lines += [line for finding in members for line in _lines(finding, with_details)]
    return "\n".join([*lines, _total(findings)])


def as_json(findings: Sequence[Finding]) -> str:
    """The same as a document."""
    found = Counter(finding.status for finding in findings)
    return json.dumps(
        {
            "findings": [{"group": finding.group, **asdict(finding)} for finding in findings],
            "counts": {status.value: found[status] for status in Status},
        },
        indent=2,
        ensure_ascii=False,
    )


def redacted(finding: Finding, hidden: Callable[[str], str]) -> Finding:
    """The finding as people may read it."""
    # A secret may have blanks that one line does not keep.
    return replace(
        finding,
        message=_one_line(hidden(finding.message)),
        remedy=None if finding.remedy is None else _one_line(hidden(finding.remedy)),
        details=tuple(_one_line(hidden(detail)) for detail in finding.details),
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _lines(finding: Finding, with_details: bool) -> Iterator[str]:
    status = f"{finding.status.value:{_WIDTH}}"
    yield wrapped(f"  {status} {finding.check}: {finding.text}", "    ")
    if with_details:
        for detail in finding.details:
            yield wrapped(f"    {detail}", "      ")


def _total(findings: Sequence[Finding]) -> str:
    found = Counter(finding.status for finding in findings)
    parts = [f"{found[status]} {status.value}" for status in Status]
    return wrapped(f"{count(len(findings), 'finding')}: {', '.join(parts)}", "  ")
