"""The time of a pod between SIGTERM and the kill, and the part of it that its run knows."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpu_core.decisions.kubernetes.manifests.launch import Launch
from gpu_core.decisions.kubernetes.nodes.clouds import termination_warning_s
from gpu_core.decisions.model.cluster import SPOT
from gpu_core.decisions.policy.kubernetes import LEAST_TERMINATION_GRACE_S, KubernetesPolicy

# The provider's warning reaches the pod some seconds late: through its queue, the drain, the
# kubelet.
_WARNING_IS_LATE_S = 10


def termination_grace_s(launch: Launch, policy: KubernetesPolicy) -> int:
    """The `terminationGracePeriodSeconds` of this pod.

    On spot capacity as long as the provider's warning leaves it, because a longer one would not be
    honored; elsewhere the policy's. Never less than what Prefect takes to end a flow: where the
    warning is shorter than that (GKE, AKS) the number does no harm, and what ends the pod for
    other reasons leaves it its time.
    """
    warning_s = _warning_s(launch, policy)
    if warning_s is None:
        return policy.termination_grace_s
    return max(warning_s - _WARNING_IS_LATE_S, LEAST_TERMINATION_GRACE_S)


def _warning_s(launch: Launch, policy: KubernetesPolicy) -> int | None:
    """How long before its node goes does it get notice, at least? None: its node does not go."""
    return termination_warning_s(policy.provisioner, SPOT) if launch.may_be_spot else None


def pod_grace_s(pod_spec: Mapping[str, Any], launch: Launch, policy: KubernetesPolicy) -> int:
    """The same for a pod whose template may say another: that counts, if Prefect can end in it
    and, on spot, the provider leaves it."""
    most_s = termination_grace_s(launch, policy)
    stated_s = pod_spec.get("terminationGracePeriodSeconds")
    if stated_s is None:
        return most_s
    is_bounded = _warning_s(launch, policy) is not None
    wanted_s = min(int(stated_s), most_s) if is_bounded else int(stated_s)
    return max(wanted_s, LEAST_TERMINATION_GRACE_S)


def with_known_grace(launch: Launch, policy: KubernetesPolicy, grace_s: int) -> Launch:
    """The launch whose run knows its grace, and on spot where to ask for the provider's notice.

    Where the provider leaves less than the pod's grace, as GKE and AKS do on spot, that is what the
    run gets it: the run decides by it whether a last save still fits.
    """
    warning_s = _warning_s(launch, policy)
    known_s = grace_s if warning_s is None else min(grace_s, warning_s)
    url = policy.instance_metadata_url if launch.may_be_spot else None
    context = replace(launch.context, grace_s=known_s, instance_metadata_url=url)
    return replace(launch, context=context)
