"""The pod of an attempt: the platform team's template with what the attempt needs."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_core.decisions.errors import InvalidInput
from gpu_core.decisions.kubernetes.clouds import Provisioner
from gpu_core.decisions.kubernetes.environment import (
    default_environment,
    env_list,
    required_environment,
    secret_env,
    without_unwanted,
)
from gpu_core.decisions.kubernetes.gang import gang_command
from gpu_core.decisions.kubernetes.grace import termination_grace_s
from gpu_core.decisions.kubernetes.launch import Launch
from gpu_core.decisions.kubernetes.merge import Manifest, filled, overlaid
from gpu_core.decisions.kubernetes.names import (
    ATTEMPT_ID_LABEL,
    ATTEMPT_LABEL,
    DEPLOYMENT_ANNOTATION,
    FLOW_RUN_LABEL,
    MEMBER,
    NAME_ANNOTATION,
    POOL_LABEL,
    PROJECT_LABEL,
    QUEUE_LABEL,
    ROLE_LABEL,
    TEAM_LABEL,
    USER_LABEL,
    labels,
)
from gpu_core.decisions.kubernetes.policy import LEAST_TERMINATION_GRACE_S, KubernetesPolicy
from gpu_core.decisions.kubernetes.priority import priority_class_name
from gpu_core.decisions.kubernetes.quantities import cpu_milli
from gpu_core.decisions.kubernetes.security import with_pod_security
from gpu_core.decisions.kubernetes.selection import affinity, combined_affinity, tolerations
from gpu_core.decisions.kubernetes.sizes import PodSize, pod_size
from gpu_core.decisions.kubernetes.volumes import (
    SHM_PATH,
    Mounted,
    required_volumes,
    shm_volume,
    wished_volumes,
)

PREFECT_CONTAINER = "prefect-job"
"""What prefect-kubernetes calls the container of the run."""

# The worker ends a run that takes too long, with notice; this ends it while no worker is there.
_DEADLINE_SLACK_S = 300


def main_container(pod_spec: Mapping[str, Any]) -> int:
    """Which of the pod's containers is the run's? The one named as Prefect does, else the first.

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


def attempt_labels(launch: Launch) -> dict[str, str]:
    """The labels by which everything of this attempt is found, and its cost is split."""
    context = launch.context
    return labels(
        {
            FLOW_RUN_LABEL: context.flow_run_id,
            ATTEMPT_LABEL: str(context.attempt),
            ATTEMPT_ID_LABEL: context.attempt_id,
            POOL_LABEL: launch.pool,
            QUEUE_LABEL: launch.queue,
            TEAM_LABEL: context.team,
            PROJECT_LABEL: context.project,
            USER_LABEL: launch.user,
        }
    )


def attempt_annotations(launch: Launch) -> dict[str, str]:
    """What is too long or too free for a label."""
    found = {
        NAME_ANNOTATION: launch.context.name,
        DEPLOYMENT_ANNOTATION: launch.context.deployment,
    }
    return {key: value for key, value in found.items() if value is not None}


def pod_template(
    template: Mapping[str, Any],
    launch: Launch,
    policy: KubernetesPolicy,
    *,
    node_names: Sequence[str] | None,
    extra_env: Sequence[Manifest] = (),
) -> Manifest:
    """The pod template of this attempt.

    Args:
        template: The platform team's, rendered and cleaned.
        launch: The attempt.
        policy: Of the pool.
        node_names: The nodes of the plan that it may get; empty: such as the run wants; None: any.
        extra_env: Further variables that must be so, such as a gang's.
    """
    size = pod_size(launch.shape, launch.pod, policy, launch.gpu_type)
    metadata = overlaid(dict(template.get("metadata", {})), _metadata(launch, policy))
    spec = _without_misplaced(template.get("spec", {}))
    spec = _with_container(spec, launch, policy, size, extra_env)
    spec = filled(spec, _defaults(spec, launch, policy))
    spec = overlaid(spec, {"restartPolicy": "Never", "tolerations": tolerations(launch)})
    spec["terminationGracePeriodSeconds"] = max(
        spec["terminationGracePeriodSeconds"], LEAST_TERMINATION_GRACE_S
    )
    ours = None if node_names is None else affinity(launch, policy, node_names)
    if ours:
        spec["affinity"] = combined_affinity(spec.get("affinity", {}), ours)
    return {"metadata": metadata, "spec": with_pod_security(spec, policy)}


def _without_misplaced(spec: Mapping[str, Any]) -> Manifest:
    """Prefect's own template has these fields of the Job in its pod (prefect-kubernetes 0.8), where
    strict validation refuses them."""
    return {key: spec[key] for key in spec if key not in ("parallelism", "completions")}


def _metadata(launch: Launch, policy: KubernetesPolicy) -> Manifest:
    annotations = attempt_annotations(launch)
    if not launch.may_be_spot:
        # Not on spot: what may not be evicted is not told when the provider takes its node.
        annotations |= _KEEP_ANNOTATIONS.get(policy.provisioner, _SAFE_TO_EVICT)
    return {
        "labels": {**attempt_labels(launch), ROLE_LABEL: MEMBER},
        "annotations": annotations,
    }


_DO_NOT_DISRUPT = {"karpenter.sh/do-not-disrupt": "true"}
_SAFE_TO_EVICT = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
_KEEP_ANNOTATIONS = {
    Provisioner.KARPENTER: _DO_NOT_DISRUPT,
    Provisioner.EKS_AUTO: _DO_NOT_DISRUPT,
    Provisioner.FIXED: {},
}


def _defaults(spec: Manifest, launch: Launch, policy: KubernetesPolicy) -> Manifest:
    found: Manifest = {
        "terminationGracePeriodSeconds": termination_grace_s(launch, policy),
        "enableServiceLinks": False,
    }
    if "serviceAccountName" not in spec:
        found["automountServiceAccountToken"] = False
    class_name = priority_class_name(launch.queue, policy)
    if class_name is not None:
        found["priorityClassName"] = class_name
    if launch.max_duration_s is not None:
        # Of the pod, not of the Job: it counts from the pod's start on a node, without the wait.
        found["activeDeadlineSeconds"] = launch.max_duration_s + _DEADLINE_SLACK_S
    return found


def _with_container(
    spec: Manifest,
    launch: Launch,
    policy: KubernetesPolicy,
    size: PodSize,
    extra_env: Sequence[Manifest],
) -> Manifest:
    containers = list(spec.get("containers") or [])
    index = main_container(spec)
    container = dict(containers[index])
    has_own_shm = any(mount["mountPath"] == SHM_PATH for mount in container.get("volumeMounts", ()))
    mounted = [*wished_volumes(launch, policy), *required_volumes()]
    if launch.pod.shm_size_mib is not None or not has_own_shm:
        mounted.append(shm_volume(size.shm_mib))
    containers[index] = _container(container, launch, policy, size, mounted, extra_env)
    volumes = {"volumes": [item.volume for item in mounted]}
    return overlaid({**spec, "containers": containers}, volumes)


def _container(
    container: Manifest,
    launch: Launch,
    policy: KubernetesPolicy,
    size: PodSize,
    mounted: Sequence[Mounted],
    extra_env: Sequence[Manifest],
) -> Manifest:
    container = {
        **container,
        "env": without_unwanted(container.get("env", []), launch),
        "resources": _resources(container.get("resources", {}), size),
    }
    container = filled(container, {"env": env_list(default_environment(launch, policy))})
    required = env_list(required_environment(launch))
    container = overlaid(
        container,
        {
            "env": [*secret_env(policy), *required, *extra_env],
            "volumeMounts": [item.mount for item in mounted],
        },
    )
    if not launch.is_flow:
        return _container_job(container, launch)
    return gang_command(container, launch) if launch.is_gang else container


def _container_job(container: Manifest, launch: Launch) -> Manifest:
    """Without Prefect: the run's image and command, or the image's own command."""
    kept = {key: value for key, value in container.items() if key not in ("command", "args")}
    if launch.pod.image is not None:
        kept["image"] = launch.pod.image
    return kept if launch.pod.command is None else {**kept, "command": list(launch.pod.command)}


def _resources(theirs: Mapping[str, Any], size: PodSize) -> Manifest:
    """The template's resources with ours: all of the GPUs, memory and CPU are ours to say, because
    they are what the scheduler placed; a CPU limit below the request would be refused."""
    kept = {
        kind: {k: v for k, v in theirs.get(kind, {}).items() if not k.startswith("nvidia.com/")}
        for kind in ("requests", "limits")
    }
    limit = kept["limits"].get("cpu")
    if limit is not None and cpu_milli(limit, "resources.limits.cpu") < size.cpu_milli:
        del kept["limits"]["cpu"]
    return {**theirs, **overlaid(kept, size.to_resources())}
