"""The pod of an attempt: the platform team's template with what the attempt needs."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_core.decisions.kubernetes.manifests.affinity import affinity, combined_affinity
from gpu_core.decisions.kubernetes.manifests.container import main_container, run_container
from gpu_core.decisions.kubernetes.manifests.further_gpus import further_requests, unplanned
from gpu_core.decisions.kubernetes.manifests.grace_period import pod_grace_s, with_known_grace
from gpu_core.decisions.kubernetes.manifests.launch import Launch
from gpu_core.decisions.kubernetes.manifests.merge import Manifest, filled, overlaid
from gpu_core.decisions.kubernetes.manifests.names import (
    ATTEMPT_ID_LABEL,
    ATTEMPT_LABEL,
    DEPLOYMENT_ANNOTATION,
    FLOW_RUN_LABEL,
    MEMBER,
    NAME_ANNOTATION,
    NAME_LABEL,
    POOL_LABEL,
    PROJECT_LABEL,
    QUEUE_LABEL,
    ROLE_LABEL,
    TEAM_LABEL,
    USER_LABEL,
    label_value,
)
from gpu_core.decisions.kubernetes.manifests.priority_class import priority_class_name
from gpu_core.decisions.kubernetes.manifests.resources import PodSize, pod_size
from gpu_core.decisions.kubernetes.manifests.security_context import with_pod_security
from gpu_core.decisions.kubernetes.manifests.tolerations import tolerations
from gpu_core.decisions.kubernetes.manifests.volumes import (
    SHM_PATH,
    required_volumes,
    shm_volume,
    wished_volumes,
)
from gpu_core.decisions.model.pydantic_errors import refuse
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy, Provisioner

# The worker ends a run that takes too long, with notice; this ends it while no worker is there.
_DEADLINE_SLACK_S = 300


def attempt_labels(launch: Launch) -> dict[str, str]:
    """The labels by which everything of this attempt is found, and its cost is split."""
    return {key: label_value(value) for key, value in _identity(launch).items()}


def attempt_annotations(launch: Launch) -> dict[str, str]:
    """Values that are too long or too free for a label; a label that was changed has its value
    here."""
    changed = {k: v for k, v in _identity(launch).items() if label_value(v) != v}
    return changed | _known(
        {NAME_ANNOTATION: launch.context.name, DEPLOYMENT_ANNOTATION: launch.context.deployment}
    )


def named_by_label(metadata: Mapping[str, Any]) -> Manifest:
    """The template's metadata with the name that Prefect gives as a label.

    Prefect makes `generateName` of the job variable `name`, or of the flow run's name. The objects
    themselves are named after the attempt.
    """
    kept = {key: value for key, value in metadata.items() if key != "generateName"}
    name = str(metadata.get("generateName", "")).rstrip("-")
    return filled(kept, {"labels": {NAME_LABEL: label_value(name)}}) if name else kept


def _identity(launch: Launch) -> dict[str, str]:
    context = launch.context
    return _known(
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


def _known(values: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in values.items() if value}


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
        node_names: The nodes of the plan that it may get; empty: such as the run wants; None: any.
        extra_env: Further variables that must be so, such as a gang's.
    """
    size = pod_size(launch.shape, launch.pod, policy, launch.gpu_type, launch.gpu_resource)
    metadata = overlaid(dict(template.get("metadata", {})), _metadata(launch, policy))
    spec = _without_misplaced(template.get("spec", {}))
    grace_s = pod_grace_s(spec, launch, policy)
    spec = _with_container(spec, with_known_grace(launch, policy, grace_s), policy, size, extra_env)
    spec = filled(spec, _defaults(spec, launch, policy))
    spec = overlaid(
        spec,
        {
            "restartPolicy": "Never",
            "tolerations": tolerations(launch),
            "terminationGracePeriodSeconds": grace_s,
        },
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
        # Not on spot: what may not be evicted gets no notice when the provider takes its node.
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
        "enableServiceLinks": False,
    }
    if "serviceAccountName" not in spec:
        found["automountServiceAccountToken"] = False
    class_name = priority_class_name(launch.priority_queue, policy)
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
    mounted = [*wished_volumes(launch, policy), *required_volumes(launch)]
    if launch.pod.shm_size_mib is not None or not has_own_shm:
        mounted.append(shm_volume(size.shm_mib))
    containers[index] = run_container(
        container,
        launch,
        policy,
        size=size,
        mounts=[item.mount for item in mounted],
        extra_env=extra_env,
    )
    refuse([*unplanned(further_requests(spec, index), size.gpus, policy)])
    volumes = {"volumes": [item.volume for item in mounted]}
    return overlaid({**spec, "containers": containers}, volumes)
