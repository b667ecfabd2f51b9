"""How long a pod has between SIGTERM and the kill."""

from gpu_core.decisions.kubernetes.clouds import SPOT, termination_warning_s
from gpu_core.decisions.kubernetes.launch import Launch
from gpu_core.decisions.kubernetes.policy import LEAST_TERMINATION_GRACE_S, KubernetesPolicy

# The provider's warning reaches the pod some seconds late: through its queue, the drain, the
# kubelet.
_WARNING_IS_LATE_S = 10


def termination_grace_s(launch: Launch, policy: KubernetesPolicy) -> int:
    """What is this pod's `terminationGracePeriodSeconds`?

    On spot capacity as long as the provider's warning leaves it, because a longer one would not be
    honoured; elsewhere the policy's. Never less than what Prefect takes to end a flow: where the
    warning is shorter than that (GKE, AKS) the number does no harm, and what ends the pod for
    other reasons leaves it its time.
    """
    warning_s = termination_warning_s(policy.provisioner, SPOT) if launch.may_be_spot else None
    if warning_s is None:
        return policy.termination_grace_s
    return max(warning_s - _WARNING_IS_LATE_S, LEAST_TERMINATION_GRACE_S)
