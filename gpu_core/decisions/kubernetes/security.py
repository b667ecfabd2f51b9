"""What Pod Security `restricted` asks of a pod, filled in where the template leaves it open.

Source: Kubernetes' Pod Security Standards (1.34). It stays the platform team's to ask for more.
"""

from gpu_core.decisions.kubernetes.merge import Manifest, filled
from gpu_core.decisions.kubernetes.policy import KubernetesPolicy


def with_pod_security(pod_spec: Manifest, policy: KubernetesPolicy) -> Manifest:
    """The pod as the policy's `pod_security` wants it."""
    if policy.pod_security == "template":
        return pod_spec
    may_be_root = pod_spec.get("securityContext", {}).get("runAsNonRoot") is False
    user_id = None if may_be_root else policy.run_as_user
    secured = filled(pod_spec, {"securityContext": _pod_context(user_id)})
    for kind in ("containers", "initContainers"):
        if kind in secured:
            secured[kind] = [filled(container, _CONTAINER) for container in secured[kind]]
    return secured


_CONTAINER: Manifest = {
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
}


def _pod_context(user_id: int | None) -> Manifest:
    context: Manifest = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if user_id is None:
        return context
    # The group owns the volumes, or their mounts would belong to root.
    return {**context, "runAsUser": user_id, "fsGroup": user_id}
