"""`prefect-gpu check`: checks files without a server and without a cluster."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_core.adapters.files.policy_file import load_policy
from gpu_core.adapters.files.yaml_file import parse_yaml
from gpu_core.cli.check.documents import Document, read_documents
from gpu_core.cli.check.manifests import check_manifest, check_policy, policies_in
from gpu_core.cli.check.output import as_json, as_text
from gpu_core.cli.check.sources import CheckedFile, read_sources
from gpu_core.cli.shared.prefect_settings import load_prefect
from gpu_core.decisions.checks.files.file_kinds import (
    KINDS,
    FileKind,
    kind_of,
    misspelled_section,
)
from gpu_core.decisions.checks.files.findings import FileFinding, FileReport, of_error
from gpu_core.decisions.kubernetes.lint import Severity
from gpu_core.decisions.model.errors import InvalidInput, sentences
from gpu_core.decisions.model.units import count
from gpu_core.decisions.policy.policy import Policy, parse_policy

_Read = tuple[CheckedFile, list[Document], list[FileFinding]]


def check(names: Sequence[str], policy_path: Path | None, *, as_document: bool) -> int:
    """Print what is wrong with these files. Returns the exit code: 1 where something is an error.

    Args:
        names: Files, folders and `-`.
        policy_path: The policy that they are for; None: the one among them, else the default.

    Raises:
        InvalidInput: A file is not there or cannot be read; or `policy_path` cannot be used.
    """
    given = None if policy_path is None else load_policy(policy_path)
    read = [_read(source) for source in read_sources(names)]
    policy = given or _policy_among(read)
    reports = [report for each in read if (report := _report(each, policy)) is not None]
    print(as_json(reports) if as_document else as_text(reports))
    return int(any(report.count(Severity.ERROR) for report in reports))


def _read(source: CheckedFile) -> _Read:
    try:
        return source, read_documents(source.text, source.name), []
    except InvalidInput as error:
        return source, [], of_error(error, source.name)


def _policy_among(read: Iterable[_Read]) -> Policy | None:
    """The first policy in these files that can be used, those in ConfigMaps too."""
    for source, documents, _ in read:
        for document in documents:
            kind = kind_of(document.data, source.file_name)
            texts = [text for _, text in policies_in(document.data)] if kind is _OBJECT else []
            for text in [source.text] if kind is FileKind.POLICY else texts:
                try:
                    return parse_policy(parse_yaml(text, source.name)[0])
                except InvalidInput:
                    continue
    return None


_OBJECT = FileKind.MANIFEST


def _report(read: _Read, policy: Policy | None) -> FileReport | None:
    """The kind of a file and its errors; None: it was not named and is of no known kind."""
    source, documents, unreadable = read
    if unreadable:
        return FileReport(file=source.name, contents="unreadable", findings=tuple(unreadable))
    kinds = [kind_of(document.data, source.file_name) for document in documents]
    known = [kind for kind in kinds if kind is not None]
    if not known:
        return _unknown(source, documents) if source.is_named else None
    findings: list[FileFinding] = []
    unchecked: list[str] = []
    for document, kind in zip(documents, kinds, strict=True):
        if kind is None:
            unchecked.append(f"the document at line {document.line}, which is not {KINDS}")
        elif kind is not _OBJECT and len(documents) > 1:
            findings.append(_one_of_several(document, kind))
        else:
            found, left = _check(kind, document, source, policy)
            findings += found
            unchecked += left
    return FileReport(
        file=source.name,
        contents=_contents(known),
        findings=tuple(findings),
        unchecked=tuple(unchecked),
    )


def _check(
    kind: FileKind, document: Document, source: CheckedFile, policy: Policy | None
) -> tuple[list[FileFinding], list[str]]:
    cluster = policy or Policy(version=1)
    if kind is FileKind.POLICY:
        return check_policy(source.text, source.name), []
    if kind is FileKind.MANIFEST:
        return check_manifest(document, source.name, cluster), []
    # Prefect takes seconds to import, and these two alone are read by its models.
    load_prefect()
    from gpu_core.cli.check.projects import check_job_template, check_project

    if kind is FileKind.PROJECT:
        return check_project(source.text, source.name, policy)
    return check_job_template(document, cluster), []


def _contents(kinds: Sequence[FileKind]) -> str:
    parts = [
        count(number, kind.value) if kind is _OBJECT else kind.value
        for kind, number in Counter(kinds).items()
    ]
    return ", ".join(parts)


def _unknown(source: CheckedFile, documents: Sequence[Document]) -> FileReport:
    data: Any = documents[0].data if documents else None
    keys = list(map(str, data))[:5] if isinstance(data, Mapping) else []
    what = f"its top-level keys are {', '.join(keys)}" if keys else "it does not contain a mapping"
    meant = misspelled_section(data) if isinstance(data, Mapping) else None
    message = sentences(
        f"is not {KINDS}: {what if documents else 'it is empty'}",
        "a policy must contain the `version` key and a section such as `priorities`",
        *(() if meant is None else (f"did you mean {meant!r}?",)),
    )
    finding = FileFinding(severity=Severity.ERROR, code="unknown-file", message=message)
    return FileReport(file=source.name, contents="unknown", findings=(finding,))


def _one_of_several(document: Document, kind: FileKind) -> FileFinding:
    return FileFinding(
        severity=Severity.ERROR,
        code="several-documents",
        line=document.line,
        message=f"a {kind.value} must be the only document in its file. Please remove the `---` "
        "separators.",
    )
