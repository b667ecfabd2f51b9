"""Checks of a policy and of Kubernetes objects. Neither needs Prefect."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpu_core.adapters.files.yaml_file import parse_yaml
from gpu_core.cli.check.documents import Document
from gpu_core.decisions.checks.files.findings import INVALID, FileFinding, of_error, of_manifest
from gpu_core.decisions.checks.files.policy_doubts import doubts_of_policy
from gpu_core.decisions.kubernetes.lint import Severity, lint
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.policy.policy import Policy, parse_policy


def check_policy(text: str, source: str, *, place: str | None = None) -> list[FileFinding]:
    """The mistakes in a policy."""
    try:
        data, lines = parse_yaml(text, source)
        policy = parse_policy(data, source=source, lines=lines)
    except InvalidInput as error:
        return of_error(error, source, place=place)
    return doubts_of_policy(policy, lines, place)


def check_manifest(document: Document, source: str, policy: Policy) -> list[FileFinding]:
    """The mistakes in a Kubernetes object, and in a policy in it."""
    manifest: Mapping[str, Any] = document.data
    place, line = kind_and_name(manifest), document.line or 1
    metadata = manifest.get("metadata")
    known: Mapping[str, Any] = metadata if isinstance(metadata, Mapping) else {}
    name = known.get("name") or known.get("generateName")
    findings = [
        FileFinding(
            severity=Severity.ERROR,
            code=INVALID,
            place=place,
            path=path,
            line=document.line,
            message="is required by the API server",
        )
        for path, is_there in (
            ("apiVersion", bool(manifest.get("apiVersion"))),
            # Files of kustomize and of kubeadm have neither.
            ("metadata.name", bool(name) or not {"metadata", "spec"} & {*manifest}),
        )
        if not is_there
    ]
    findings += [
        of_manifest(found, place, document.lines, line)
        for found in lint(manifest, policy.kubernetes)
    ]
    for path, text in policies_in(manifest):
        of_policy = check_policy(text, source, place=f"{place} {path}")
        findings += [_moved_down(each, document.lines.get(path)) for each in of_policy]
    return findings


def _moved_down(finding: FileFinding, lines: int | None) -> FileFinding:
    """The finding in a text that begins below this line of the file."""
    if finding.line is None or lines is None:
        return replace(finding, line=None)
    return replace(finding, line=finding.line + lines)


def policies_in(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The policies that a ConfigMap holds: the path of each in it, and its text."""
    data = manifest.get("data") if manifest.get("kind") == "ConfigMap" else None
    if not isinstance(data, Mapping):
        return []
    return [
        (f"data.{key}", text)
        for key, text in data.items()
        if str(key).endswith(("policy.yaml", "policy.yml")) and isinstance(text, str)
    ]


def kind_and_name(manifest: Mapping[str, Any]) -> str:
    """The name of an object for people: `Deployment gpu/worker`."""
    metadata = manifest.get("metadata")
    known: Mapping[str, Any] = metadata if isinstance(metadata, Mapping) else {}
    name = known.get("name") or known.get("generateName") or "without a name"
    namespace = known.get("namespace")
    return f"{manifest.get('kind')} {f'{namespace}/' if namespace else ''}{name}"
