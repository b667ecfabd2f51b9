"""Ray: a RayJob of KubeRay (`ray.io/v1`, KubeRay 1.7)."""

import shlex

from gpu_core.decisions.kubernetes.manifests.merge import Manifest
from gpu_core.decisions.kubernetes.manifests.names import SUBMITTER
from gpu_core.decisions.kubernetes.operators.custom_job import (
    CustomJob,
    PodSet,
    Request,
    head_pod,
    member_pod,
    metadata_of,
)

_GROUP = "gpu"


def build_ray_job(request: Request) -> CustomJob:
    """A Ray cluster of its own for one entry point: a head without GPUs and a worker for each node.

    The cluster goes when the entry point ends, so that its GPUs do not wait for the RayJob's time
    to live; retries are the worker's.
    """
    launch = request.launch
    workers = launch.shape.nodes
    manifest: Manifest = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": metadata_of(request),
        "spec": {
            "entrypoint": shlex.join(request.command),
            "submissionMode": "K8sJobMode",
            "backoffLimit": 0,
            "submitterConfig": {"backoffLimit": 0},
            # Its output is the entry point's; KubeRay fills in the command.
            "submitterPodTemplate": head_pod(request, role=SUBMITTER),
            "shutdownAfterJobFinishes": True,
            "suspend": request.is_suspended,
            "rayClusterSpec": {
                "headGroupSpec": {
                    # The head leads; tasks go to the workers.
                    "rayStartParams": {"num-cpus": "0"},
                    "template": head_pod(request),
                },
                "workerGroupSpecs": [
                    {
                        "groupName": _GROUP,
                        "replicas": workers,
                        "minReplicas": workers,
                        "maxReplicas": workers,
                        "rayStartParams": {},
                        "template": member_pod(request),
                    }
                ],
            },
        },
    }
    return CustomJob(
        manifest=manifest,
        pod_sets=(
            PodSet(name="head", count=1, gpus_per_pod=0),
            PodSet(name=_GROUP, count=workers, gpus_per_pod=launch.shape.gpu_count),
        ),
    )
