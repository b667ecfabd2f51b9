"""The form of a gpu-kubernetes work pool: our job variables, those of the pods, Prefect's own."""

from prefect_kubernetes.worker import KubernetesWorkerJobConfiguration, KubernetesWorkerVariables

from gpu_core.decisions.kubernetes.variables import PodRequest
from gpu_core.decisions.request import GpuRequest
from gpu_core.worker.configuration import KnownEnvironment


class GpuKubernetesJobConfiguration(KnownEnvironment, KubernetesWorkerJobConfiguration):
    """The Job of one attempt before GPUs, nodes and security are in it: the platform team's."""


class GpuKubernetesVariables(GpuRequest, PodRequest, KubernetesWorkerVariables):
    """What the form of a gpu-kubernetes work pool offers."""
