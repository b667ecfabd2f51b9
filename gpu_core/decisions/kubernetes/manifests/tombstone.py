"""Objects that keep the names of an attempt taken, so that a late request cannot create it.

A creation may reach the API server after its attempt has been given up: its worker was stopped in
the middle of it, or the network kept the request. Names are unique there, so the worker that gives
up an attempt whose creation may still come takes its names first; the late request is refused with
AlreadyExists, however late it is.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_core.decisions.kubernetes.manifests.launch import Launch
from gpu_core.decisions.kubernetes.manifests.merge import Manifest
from gpu_core.decisions.kubernetes.manifests.names import (
    ATTEMPT_ID_LABEL,
    FLOW_RUN_LABEL,
    POOL_LABEL,
    ROLE_LABEL,
    job_name,
    label_value,
)
from gpu_core.decisions.kubernetes.operators import build_custom_job
from gpu_core.decisions.kubernetes.variables.frameworks import FRAMEWORKS
from gpu_core.decisions.kubernetes.variables.variables import parse_pod_request
from gpu_core.decisions.model.cluster import Placement
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from gpu_core.decisions.requests.runs.run_context import RunContext

TOMBSTONE = "tombstone"
"""The role of these objects. They carry no attempt's label: nothing takes them for its Job."""

_TEMPLATE: Mapping[str, Any] = {
    "spec": {"template": {"spec": {"containers": [{"name": "none", "image": "none"}]}}}
}


def is_tombstone(item: Mapping[str, Any]) -> bool:
    """Does this object only keep a name? A run may bring any label, but its Job is an attempt's."""
    labels = item["metadata"].get("labels") or {}
    return labels.get(ROLE_LABEL) == TOMBSTONE and ATTEMPT_ID_LABEL not in labels


def tombstone_jobs(
    attempt_id: str, flow_run_id: str, pool: str, nodes: int, policy: KubernetesPolicy
) -> Iterator[Manifest]:
    """The Jobs that keep the names which the Jobs of this attempt would have.

    A Job of no completions is complete at once, makes no pod, and goes with its time to live.

    Args:
        nodes: How many the attempt has; a gang may have a Job for each, under any policy's
            version says by now.
        policy: Says how long Jobs stay that are over.
    """
    name = job_name(attempt_id)
    names = [name, *(f"{name}-{rank}" for rank in range(nodes) if nodes > 1)]
    for each in names:
        yield {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": each, "labels": _labels(flow_run_id, pool)},
            "spec": {
                "completions": 0,
                "parallelism": 0,
                "backoffLimit": 0,
                "ttlSecondsAfterFinished": policy.kept_after_end_s,
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [{"name": "none", "image": "none"}],
                    }
                },
            },
        }


def tombstone_custom_job(
    attempt_id: str, flow_run_id: str, pool: str, framework: str, policy: KubernetesPolicy
) -> Manifest:
    """The suspended object that keeps the name of what an operator would run for this attempt.

    Args:
        framework: The job variable: ray, kubeflow or spark.
        policy: Names the training runtime, which has to exist.
    """
    launch = Launch(
        context=RunContext(flow_run_id=flow_run_id, attempt=1, attempt_id=attempt_id),
        shape=Shape(gpu_count=0),
        place=Placement(gpu_type=None, capacity_type="on-demand", shares=()),
        pool=pool,
        pod=parse_pod_request(
            {"framework": framework, "container_command": FRAMEWORKS[framework].empty_command}
        ),
        is_flow=False,
    )
    found = build_custom_job(_TEMPLATE, launch, policy, is_suspended=True).manifest
    metadata = {"name": found["metadata"]["name"], "labels": _labels(flow_run_id, pool)}
    return {**found, "metadata": metadata}


def _labels(flow_run_id: str, pool: str) -> dict[str, str]:
    return {
        ROLE_LABEL: TOMBSTONE,
        FLOW_RUN_LABEL: label_value(flow_run_id),
        POOL_LABEL: label_value(pool),
    }
