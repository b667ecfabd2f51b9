"""Kubeflow: a TrainJob of Kubeflow Trainer (`trainer.kubeflow.org/v1alpha1`, Trainer 2.3)."""

from gpu_core.decisions.kubernetes.manifests.merge import Manifest
from gpu_core.decisions.kubernetes.manifests.names import PREFIX
from gpu_core.decisions.kubernetes.operators.custom_job import (
    CustomJob,
    PodSet,
    Request,
    member_pod,
    metadata_of,
)

# What a patch of a runtime may say about its pods (TrainJob's PodSpecPatch); the rest, such as the
# restart policy, is the training runtime's.
_PATCHED = (
    "affinity",
    "imagePullSecrets",
    "nodeSelector",
    "securityContext",
    "serviceAccountName",
    "terminationGracePeriodSeconds",
    "tolerations",
    "volumes",
)
# The replicated job of the ready-made runtimes, and its container.
_NODE = "node"


def build_train_job(request: Request) -> CustomJob:
    """One training node for each node of the gang; the runtime starts torchrun on each.

    No variable of torchrun is set: Trainer keeps the `PET_` names for itself and refuses them.
    """
    launch = request.launch
    pod = member_pod(request)
    container = pod["spec"]["containers"][0]
    trainer: Manifest = {
        "command": list(request.command),
        "numNodes": launch.shape.nodes,
        "resourcesPerNode": container["resources"],
        "env": container["env"],
    }
    if "image" in container:
        trainer["image"] = container["image"]
    if launch.shape.gpu_count:
        trainer["numProcPerNode"] = launch.shape.gpu_count
    manifest: Manifest = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": metadata_of(request),
        "spec": {
            "runtimeRef": {
                "apiGroup": "trainer.kubeflow.org",
                "kind": "ClusterTrainingRuntime",
                "name": request.policy.operators.training_runtime,
            },
            "suspend": request.is_suspended,
            "trainer": trainer,
            "runtimePatches": [_patch(pod)],
        },
    }
    nodes = PodSet(name=_NODE, count=launch.shape.nodes, gpus_per_pod=launch.shape.gpu_count)
    return CustomJob(manifest=manifest, pod_sets=(nodes,))


def _patch(pod: Manifest) -> Manifest:
    spec = {key: pod["spec"][key] for key in _PATCHED if key in pod["spec"]}
    container = pod["spec"]["containers"][0]
    mine = {key: container[key] for key in ("volumeMounts", "securityContext") if key in container}
    template = {
        "metadata": pod["metadata"],
        "spec": {**spec, "containers": [{"name": _NODE, **mine}]},
    }
    replicated = {"name": _NODE, "template": {"spec": {"template": template}}}
    return {
        "manager": f"{PREFIX}/worker",
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [replicated]}}},
    }
