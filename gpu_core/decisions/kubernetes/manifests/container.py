"""The container of a run: which of the template's it is, and what the run needs in it."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_core.decisions.kubernetes.manifests.environment import (
    default_environment,
    env_list,
    required_environment,
    secret_env,
    without_unwanted,
)
from gpu_core.decisions.kubernetes.manifests.further_gpus import is_gpu_resource
from gpu_core.decisions.kubernetes.manifests.gang import gang_command
from gpu_core.decisions.kubernetes.manifests.launch import Launch
from gpu_core.decisions.kubernetes.manifests.merge import Manifest, filled, overlaid
from gpu_core.decisions.kubernetes.manifests.resources import PodSize
from gpu_core.decisions.kubernetes.variables.quantities import cpu_milli
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy

PREFECT_CONTAINER = "prefect-job"
"""The name that prefect-kubernetes gives the container of the run."""


def main_container(pod_spec: Mapping[str, Any]) -> int:
    """The index of the run's own container: the one named as Prefect does, else the first.

    Raises:
        InvalidInput: The pod has no container.
    """
    containers = pod_spec.get("containers") or []
    if not containers:
        raise InvalidInput(
            "job_manifest.spec.template.spec.containers",
            "is empty",
            remedy=f"the pool's template needs a container named {PREFECT_CONTAINER!r}",
        )
    names = [container.get("name") for container in containers]
    return names.index(PREFECT_CONTAINER) if PREFECT_CONTAINER in names else 0


def run_container(
    container: Manifest,
    launch: Launch,
    policy: KubernetesPolicy,
    *,
    size: PodSize,
    mounts: Sequence[Manifest],
    extra_env: Sequence[Manifest],
) -> Manifest:
    """The template's container with what the run needs.

    Args:
        size: Of the pod: all of it is this container's.
        extra_env: Further variables that must be so.

    Raises:
        InvalidInput: A gang of a flow does not state what the other nodes run.
    """
    container = {
        **{key: value for key, value in container.items() if key not in _RESTARTS},
        "env": without_unwanted(container.get("env", ()), launch),
        "resources": _resources(container.get("resources", {}), size, policy),
    }
    container = filled(container, {"env": env_list(default_environment(launch, policy))})
    required = env_list(required_environment(launch))
    container = overlaid(
        container,
        {
            "env": [*secret_env(launch, policy), *required, *extra_env],
            "volumeMounts": list(mounts),
        },
    )
    if not launch.is_flow:
        return _container_job(container, launch)
    return gang_command(container, launch, policy) if launch.is_gang else container


# What would have the kubelet start the run again, in the same pod (1.34).
_RESTARTS = frozenset({"restartPolicy", "restartPolicyRules"})


def _container_job(container: Manifest, launch: Launch) -> Manifest:
    """Without Prefect: the run's image and command, or the image's own command."""
    kept = {key: value for key, value in container.items() if key not in ("command", "args")}
    if launch.pod.image is not None:
        kept["image"] = launch.pod.image
    command = launch.pod.container_command
    return kept if command is None else {**kept, "command": list(command)}


def _resources(theirs: Mapping[str, Any], size: PodSize, policy: KubernetesPolicy) -> Manifest:
    """The template's resources with ours: all of the GPUs, memory and CPU are ours to say, because
    they are what the scheduler placed; a CPU limit below the request would be refused."""
    kept = {
        kind: {
            name: amount
            for name, amount in theirs.get(kind, {}).items()
            if not name.startswith("nvidia.com/") and not is_gpu_resource(name, policy)
        }
        for kind in ("requests", "limits")
    }
    limit = kept["limits"].get("cpu")
    if limit is not None and cpu_milli(limit, "resources.limits.cpu") < size.cpu_milli:
        del kept["limits"]["cpu"]
    return {**theirs, **overlaid(kept, size.to_resources())}
