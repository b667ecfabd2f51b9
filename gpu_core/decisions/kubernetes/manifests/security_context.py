"""The fields that Pod Security `restricted` asks for, filled in where the template leaves them
open.

Source: Kubernetes' Pod Security Standards (1.34). It stays the platform team's to ask for more.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_core.decisions.kubernetes.manifests.merge import Manifest, filled
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.pydantic_errors import refuse
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy

_POD = "job_manifest.spec.template.spec"
_CONTAINERS = ("containers", "initContainers")


def with_pod_security(pod_spec: Manifest, policy: KubernetesPolicy) -> Manifest:
    """The pod as the policy's `pod_security` wants it.

    Raises:
        InvalidInput: A container of it is root where it may not be: the kubelet would never start
            it (`verifyRunAsNonRoot`, 1.34), and the run would wait until its time-out.
        InvalidInputs: Several are; the message has a line for each.
    """
    if policy.pod_security == "template":
        return pod_spec
    may_be_root = pod_spec.get("securityContext", {}).get("runAsNonRoot") is False
    user_id = None if may_be_root else policy.run_as_user
    secured = filled(pod_spec, {"securityContext": _pod_context(pod_spec, user_id, policy)})
    for kind in _CONTAINERS:
        if kind in secured:
            secured[kind] = [filled(container, _CONTAINER) for container in secured[kind]]
    refuse([_root(field) for field in _root_fields(secured)])
    return secured


_CONTAINER: Manifest = {
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
}


def _pod_context(
    pod_spec: Mapping[str, Any], user_id: int | None, policy: KubernetesPolicy
) -> Manifest:
    context: Manifest = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if user_id is None:
        return context
    context["runAsUser"] = user_id
    if "fsGroup" in pod_spec.get("securityContext", {}):
        return context
    # The group owns the volumes, or their mounts would belong to root.
    context["fsGroup"] = user_id
    if policy.capabilities.fs_group_change_policy:
        # Otherwise the kubelet goes through every file of a volume before each start, which takes
        # minutes where there are many (kubernetes.io, "Configure a Security Context", 1.34).
        context["fsGroupChangePolicy"] = "OnRootMismatch"
    return context


def _root_fields(pod_spec: Mapping[str, Any]) -> Iterator[str]:
    """The fields that make a container root which must not be.

    A container's field overrides its pod's.
    """
    shared = pod_spec["securityContext"]
    for kind in _CONTAINERS:
        for index, container in enumerate(pod_spec.get(kind, ())):
            own = container["securityContext"]
            effective = {**shared, **own}
            if effective.get("runAsUser") == 0 and effective["runAsNonRoot"]:
                where = f"{_POD}.{kind}[{index}]" if "runAsUser" in own else _POD
                yield f"{where}.securityContext.runAsUser"


def _root(field: str) -> InvalidInput:
    return InvalidInput(
        field,
        "must not be root if `kubernetes.pod_security` is 'restricted'",
        got=0,
        allowed="another user id, or none",
        remedy="if root is required, set `kubernetes.pod_security` to 'template'",
    )
