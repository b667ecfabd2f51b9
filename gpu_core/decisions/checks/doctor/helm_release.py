"""A worker that comes from the Helm chart: what helps is a value of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from shlex import quote
from typing import Any

from gpu_core.decisions.kubernetes.rbac.rights import OptionalPart, Right
from gpu_core.decisions.kubernetes.variables.frameworks import FRAMEWORKS

_CHART = "infra/helm/prefect-gpu"
_NAME = "prefect-gpu"
_BY_PLURAL = {framework.plural: name for name, framework in FRAMEWORKS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class HelmRelease:
    """An installation of the chart."""

    name: str
    namespace: str

    def upgrade(self, arguments: str = "") -> str:
        """The command that changes values of it and leaves all others."""
        command = f"helm upgrade {quote(self.name)} {_CHART} --namespace {quote(self.namespace)}"
        return f"{command} --reuse-values {arguments}".rstrip()


def release_of(pods: Iterable[Mapping[str, Any]]) -> HelmRelease | None:
    """The Helm release of these worker pods; None: the chart did not make them."""
    for pod in pods:
        metadata = pod["metadata"]
        labels = metadata.get("labels") or {}
        name = labels.get("app.kubernetes.io/instance")
        if labels.get("app.kubernetes.io/name") == _NAME and name:
            return HelmRelease(name=name, namespace=metadata["namespace"])
    return None


def right_remedy(release: HelmRelease, right: Right, namespace: str | None) -> str:
    """The command that upgrades the chart so that it grants this right."""
    if right.option is OptionalPart.FRAMEWORKS:
        return release.upgrade(f"--set frameworks.{_BY_PLURAL[right.resource]}=true")
    if right.option in (OptionalPart.NODE_TASKS, OptionalPart.NODE_ANNOTATIONS):
        return release.upgrade("--set nodeAnnotations.enabled=true")
    if right.option is not None:
        return release.upgrade("--set-file policy=POLICY_FILE")
    if namespace is not None and not right.is_of_worker:
        return f"add {namespace} to runs.namespaces of VALUES_FILE, then: " + release.upgrade(
            "--values VALUES_FILE"
        )
    return release.upgrade()
