"""The frameworks whose operators run an attempt as one custom object."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """A framework, and the kind of object that its operator runs."""

    kind: str
    group: str
    version: str
    plural: str
    operator: str
    status_fields: tuple[str, ...]
    """The part of its status that decides; the rest changes often."""
    has_head: bool
    """Whether one pod without GPUs leads, which says what the others write."""
    empty_command: str
    """A command that its builder accepts, for an object that runs nothing."""

    @property
    def group_version(self) -> str:
        """As manifests have it in `apiVersion`."""
        return f"{self.group}/{self.version}"

    def path(self, namespace: str | None = None) -> str:
        """The path at which its objects are listed and created; None: those of all namespaces."""
        place = "" if namespace is None else f"/namespaces/{namespace}"
        return f"/apis/{self.group_version}{place}/{self.plural}"


FRAMEWORKS: Mapping[str, Framework] = MappingProxyType(
    {
        "ray": Framework(
            kind="RayJob",
            group="ray.io",
            version="v1",
            plural="rayjobs",
            operator="KubeRay",
            status_fields=("jobDeploymentStatus", "jobStatus", "message", "reason", "endTime"),
            has_head=True,
            empty_command="true",
        ),
        "kubeflow": Framework(
            kind="TrainJob",
            group="trainer.kubeflow.org",
            version="v1alpha1",
            plural="trainjobs",
            operator="Kubeflow Trainer",
            status_fields=("conditions", "jobsStatus"),
            has_head=False,
            empty_command="true",
        ),
        "spark": Framework(
            kind="SparkApplication",
            group="sparkoperator.k8s.io",
            version="v1beta2",
            plural="sparkapplications",
            operator="the Spark operator",
            status_fields=("applicationState", "terminationTime"),
            has_head=True,
            empty_command="local:///none.py",
        ),
    }
)
"""By the job variable `framework`."""
