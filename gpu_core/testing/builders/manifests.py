"""Attempts to launch, and their manifests as Kubernetes takes them."""

from copy import deepcopy
from typing import Any

from gpu_core.decisions.kubernetes.manifests.job import Manifests, build_job
from gpu_core.decisions.kubernetes.manifests.launch import Launch, Wanted
from gpu_core.decisions.kubernetes.variables.variables import parse_pod_request
from gpu_core.decisions.model.cluster import NodeShare, Placement
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from gpu_core.decisions.requests.runs.run_context import RunContext

ATTEMPT_ID = "3f2a6f0e-1c5d-4e8a-9b7f-0123456789ab"
JOB_NAME = f"gpu-{ATTEMPT_ID}"

# What a pool's template looks like when Prefect has rendered it: names, empty variables and all.
TEMPLATE: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {
        "annotations": {},
        "labels": {"prefect.io/flow-run-name": "brave-fox"},
        "namespace": "ml",
        "generateName": "brave-fox-",
    },
    "spec": {
        "backoffLimit": 0,
        "ttlSecondsAfterFinished": None,
        "template": {
            "metadata": {"labels": {"prefect.io/flow-run-name": "brave-fox"}},
            "spec": {
                "parallelism": 1,
                "completions": 1,
                "restartPolicy": "Never",
                "serviceAccountName": None,
                "containers": [
                    {
                        "name": "prefect-job",
                        "image": "prefecthq/prefect:3.8.8-python3.11",
                        "imagePullPolicy": "IfNotPresent",
                        "args": ["prefect", "flow-run", "execute"],
                        "env": [{"name": "PREFECT_API_URL", "value": "http://prefect:4200/api"}],
                        "resources": {
                            "limits": {"cpu": None, "memory": None},
                            "requests": {"cpu": None, "memory": None},
                        },
                    }
                ],
            },
        },
    },
}


def template(**pod: Any) -> dict[str, Any]:
    """The pool's template with these fields in its pod's spec."""
    found = deepcopy(TEMPLATE)
    found["spec"]["template"]["spec"].update(pod)
    return found


def template_container(**fields: Any) -> dict[str, Any]:
    """The pool's template with these fields in its container."""
    found = deepcopy(TEMPLATE)
    found["spec"]["template"]["spec"]["containers"][0].update(fields)
    return found


def make_kubernetes_policy(**fields: Any) -> KubernetesPolicy:
    """The section `kubernetes` with these fields, as a person writes them."""
    return KubernetesPolicy.model_validate(fields)


def on_nodes(*names: str, gpus: int = 1, capacity_type: str = "on-demand") -> Placement:
    """A placement on `gpus` a100-80gb of each of these nodes."""
    ids = tuple(str(i) for i in range(gpus))
    shares = tuple(NodeShare(node=name, gpu_ids=ids) for name in names)
    return Placement(gpu_type="a100-80gb", capacity_type=capacity_type, shares=shares)


def make_launch(
    gpus: int = 1,
    *,
    nodes: int = 1,
    place: Placement | Wanted | None = None,
    shape: dict[str, Any] | None = None,
    variables: dict[str, Any] | None = None,
    context: dict[str, Any] | None = None,
    **changes: Any,
) -> Launch:
    """An attempt for `gpus` GPUs on planned nodes."""
    names = tuple(f"n{i + 1}" for i in range(nodes))
    run: dict[str, Any] = {
        "flow_run_id": "7d0c9f2e-5a55-4a3b-8a43-8a7f6a3f1f10",
        "attempt": 1,
        "attempt_id": ATTEMPT_ID,
        "name": "brave-fox",
        "team": "vision",
        "checkpoint_uri": "s3://checkpoints",
    }
    values: dict[str, Any] = {
        "context": RunContext(**(run | (context or {}))),
        "shape": Shape(gpu_count=gpus, nodes=nodes)._replace(**(shape or {})),
        "place": on_nodes(*names, gpus=gpus) if place is None else place,
        "pool": "gpus",
        "queue": "high",
        "priority_queue": "high",
        "pod": parse_pod_request(variables or {}),
    }
    return Launch(**(values | changes))


def build(launch: Launch | None = None, manifest: Any = None, **policy: Any) -> Manifests:
    """The manifests of the launch under a policy with these fields."""
    return build_job(
        manifest or TEMPLATE, launch or make_launch(), make_kubernetes_policy(**policy)
    )


def pod_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """The pod's spec of a Job."""
    pod: dict[str, Any] = manifest["spec"]["template"]["spec"]
    return pod


def container_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """The run's container of a Job."""
    container: dict[str, Any] = pod_of(manifest)["containers"][0]
    return container


def env_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """The variables of the run's container: values, or where they come from."""
    return {
        item["name"]: item.get("value", item.get("valueFrom"))
        for item in container_of(manifest)["env"]
    }
