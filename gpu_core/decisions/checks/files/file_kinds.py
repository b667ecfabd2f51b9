"""The kind of a file that people write for this project, by its content."""

from collections.abc import Mapping
from enum import StrEnum

from gpu_core.decisions.model.pydantic_errors import known_names
from gpu_core.decisions.policy.policy import Policy

_POLICY_KEYS = frozenset(known_names(Policy))
# Keys of a prefect.yaml that no policy has (Prefect 3.8, `PrefectYamlModel`).
_PROJECT_KEYS = frozenset({"deployments", "prefect-version", "pull", "push", "build"})
_TEMPLATE_KEYS = frozenset({"variables", "job_configuration"})


class FileKind(StrEnum):
    """The kind of a document."""

    POLICY = "policy"
    PROJECT = "prefect.yaml"
    JOB_TEMPLATE = "base job template"
    MANIFEST = "Kubernetes object"


KINDS = "a policy, a prefect.yaml, a base job template, or Kubernetes manifests"
"""All of them, for messages."""


def kind_of(data: object, file_name: str = "") -> FileKind | None:
    """The kind of this document; None: none of those that are checked.

    Args:
        data: Plain data, as a YAML or JSON reader gives it.
        file_name: The file's name without folders, which decides where the content does not.
    """
    if not isinstance(data, Mapping):
        return None
    keys = {key for key in data if isinstance(key, str)}
    if "kind" in keys and keys & {"apiVersion", "metadata", "spec"}:
        return FileKind.MANIFEST
    if keys >= _TEMPLATE_KEYS:
        return FileKind.JOB_TEMPLATE
    if keys & _PROJECT_KEYS:
        return FileKind.PROJECT
    has_other_keys = "version" not in keys and not keys <= _POLICY_KEYS
    if len(keys & _POLICY_KEYS) > 1 and not has_other_keys:
        return FileKind.POLICY
    return _BY_NAME.get(file_name)


_BY_NAME = {
    "policy.yaml": FileKind.POLICY,
    "policy.yml": FileKind.POLICY,
    "prefect.yaml": FileKind.PROJECT,
}
