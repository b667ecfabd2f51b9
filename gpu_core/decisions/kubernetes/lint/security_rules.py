"""Rules of Pod Security `restricted`, so that they are read here and not in a refusal.

Source: Kubernetes' Pod Security Standards (1.34). Sysctls, AppArmor and SELinux are left to the
admission controller.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_core.decisions.kubernetes.lint.findings import (
    LintFinding,
    PodPlace,
    items,
    mapping,
    objects,
)

_VOLUMES = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
_HOST_NAMESPACES = ("hostNetwork", "hostPID", "hostIPC")
_SECCOMP = ("RuntimeDefault", "Localhost")


def restricted(pod: PodPlace) -> Iterator[LintFinding]:
    """Everything that the standard asks for, where the policy asks for the standard."""
    if pod.policy.pod_security != "restricted":
        return
    yield from _of_pod(pod)
    for path, container in pod.containers():
        yield from _of_container(pod, path, container)


def _of_pod(pod: PodPlace) -> Iterator[LintFinding]:
    for name in _HOST_NAMESPACES:
        if pod.spec.get(name):
            yield _finding(
                "host-namespace",
                pod.at(f"spec.{name}"),
                "shares the node's namespace",
                "leave it out",
            )
    for index, volume in objects(pod.spec.get("volumes")):
        for source in sorted(map(str, volume.keys() - {"name"} - _VOLUMES)):
            yield _finding(
                "volume",
                pod.at(f"spec.volumes[{index}].{source}"),
                f"is a {source} volume",
                "use a PersistentVolumeClaim",
            )


def _of_container(pod: PodPlace, path: str, container: Mapping[str, Any]) -> Iterator[LintFinding]:
    own = mapping(container.get("securityContext"))
    shared = mapping(pod.spec.get("securityContext"))
    where = f"{path}.securityContext"
    if own.get("privileged"):
        yield _finding("privileged", f"{where}.privileged", "is privileged", "leave it out")
    if own.get("allowPrivilegeEscalation") is not False:
        yield _finding(
            "escalation",
            f"{where}.allowPrivilegeEscalation",
            "is not forbidden",
            "set false",
        )
    if own.get("runAsNonRoot", shared.get("runAsNonRoot")) is not True:
        yield _finding("root", f"{where}.runAsNonRoot", "is not set", "set true")
    if own.get("runAsUser", shared.get("runAsUser")) == 0:
        yield _finding("root", f"{where}.runAsUser", "is root", "use a different user ID")
    capabilities = mapping(own.get("capabilities"))
    added = {str(name) for name in items(capabilities.get("add"))} - {"NET_BIND_SERVICE"}
    if "ALL" not in items(capabilities.get("drop")) or added:
        yield _finding(
            "capabilities",
            f"{where}.capabilities",
            f"adds {', '.join(sorted(added))}" if added else "are not dropped",
            "drop ALL and add none",
        )
    profile = mapping(own.get("seccompProfile", shared.get("seccompProfile")))
    if profile.get("type") not in _SECCOMP:
        yield _finding(
            "seccomp", f"{where}.seccompProfile", "is not set", "set type RuntimeDefault"
        )
    for index, port in objects(container.get("ports")):
        if port.get("hostPort"):
            yield _finding(
                "host-port", f"{path}.ports[{index}].hostPort", "is the node's", "leave it out"
            )


def _finding(code: str, path: str, problem: str, remedy: str) -> LintFinding:
    return LintFinding(
        code=f"security-{code}",
        path=path,
        problem=f"{problem}, which is forbidden by Pod Security 'restricted'",
        remedy=remedy,
    )


SECURITY_RULES = (restricted,)
