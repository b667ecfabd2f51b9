"""The form of a gpu-kubernetes work pool: our job variables, those of the pods, Prefect's own."""

from collections.abc import Mapping
from functools import lru_cache
from typing import ClassVar

from prefect_kubernetes import utilities
from prefect_kubernetes.worker import KubernetesWorkerJobConfiguration, KubernetesWorkerVariables

from gpu_core.decisions.kubernetes.variables.variables import PodRequest
from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.worker.attempts.job_configuration import KnownEnvironment


# Keys are few; of the values only the run's id and name are new each time.
# The functions are private: a Prefect without them is refused at the worker's start.
@lru_cache(maxsize=1024)
def _label_key(key: str) -> str:
    return str(utilities._slugify_label_key(key))


@lru_cache(maxsize=1024)
def _label_value(value: str) -> str:
    return str(utilities._slugify_label_value(value))


class GpuKubernetesJobConfiguration(KnownEnvironment, KubernetesWorkerJobConfiguration):
    """The Job of one attempt before GPUs, nodes and security are in it: the platform team's."""

    has_env_list: ClassVar[bool] = True

    def _slugify_labels(self) -> None:
        # What prefect-kubernetes does with each label of each Job anew, and again for its pod.
        metadata = self.job_manifest["metadata"]
        metadata["labels"] = _labels({**metadata.get("labels", {}), **self.labels})

    def _propagate_labels_to_pod(self) -> None:
        metadata = self.job_manifest["spec"]["template"].setdefault("metadata", {})
        metadata["labels"] = _labels({**metadata.get("labels", {}), **self.labels})


class GpuKubernetesVariables(GpuRequest, PodRequest, KubernetesWorkerVariables):
    """The job variables of a gpu-kubernetes work pool, as shown in its form."""


def _labels(labels: Mapping[str, str]) -> dict[str, str]:
    """These labels in the form that Kubernetes accepts, as prefect-kubernetes gives it to them."""
    return {_label_key(key): _label_value(value) for key, value in labels.items()}
