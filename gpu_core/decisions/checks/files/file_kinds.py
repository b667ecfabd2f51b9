"""The kind of a file that people write for this project, by its content."""

from collections.abc import Mapping
from difflib import get_close_matches
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


def misspelled_section(data: Mapping[object, object]) -> str | None:
    """The section of a policy that a key of this document was probably meant for; None: none.

    Files of other programs have keys that look a little like ours, as `services` and `prices` do.
    """
    known = sorted(_POLICY_KEYS - data.keys())
    names = (get_close_matches(key, known, 1, 0.85) for key in data if isinstance(key, str))
    return next((near[0] for near in names if near), None)


_BY_NAME = {
    "policy.yaml": FileKind.POLICY,
    "policy.yml": FileKind.POLICY,
    "prefect.yaml": FileKind.PROJECT,
}
