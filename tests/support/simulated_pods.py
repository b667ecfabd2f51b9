"""Pods on nodes without kubelets, whose output the API server reads from a simulated kubelet."""

import asyncio
from collections.abc import Iterable, Mapping

import yaml

from gpu_core.adapters.kubernetes import KubernetesApi
from tests.support.cluster import BUSYBOX, Cluster, Json

PREFIX = "simulated.prefect-gpu/"
SET = PREFIX + "set"
"""The label that all nodes of a set have, with the set's name as its value."""

_CREATORS = 16


def annotations(behavior: Mapping[str, object]) -> dict[str, str]:
    """How pods behave, as `tests/local_cluster/simulated_pods.py` and `simulated_logs.py` read it.

    Args:
        behavior: By the annotation's name with underscores, such as `run_for_s`.
    """
    return {PREFIX + name.replace("_", "-"): str(value) for name, value in behavior.items()}


def bound_pod(name: str, node: str, **behavior: object) -> Json:
    """A pod that is on this node at once, without the scheduler."""
    container = {
        "name": "main",
        "image": BUSYBOX,
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations(behavior)},
        "spec": {"nodeName": node, "containers": [container], "restartPolicy": "Never"},
    }


async def connected(cluster: Cluster) -> KubernetesApi:
    """The cluster, as the worker talks to it."""
    return await KubernetesApi.connect(yaml.safe_load(cluster.kubeconfig.read_text()))


async def create_pods(api: KubernetesApi, namespace: str, pods: Iterable[Json]) -> None:
    """Create all of them, several at a time."""
    rest = iter(pods)

    async def create() -> None:
        for pod in rest:
            await api.create(f"/api/v1/namespaces/{namespace}/pods", pod)

    await asyncio.gather(*(create() for _ in range(_CREATORS)))
