"""The taints that do not keep a pod off a node."""

from gpu_core.decisions.kubernetes.manifests.launch import Launch
from gpu_core.decisions.kubernetes.manifests.merge import Manifest
from gpu_core.decisions.kubernetes.nodes.clouds import AKS_GPU_TAINT, GPU_TAINT, SPOT_TAINTS


def tolerations(launch: Launch) -> list[Manifest]:
    """The tolerations of a pod, added to the template's own: GPUs, spot, and those of its shape."""
    found: list[Manifest] = []
    if launch.shape.gpu_count:
        found.append({"key": GPU_TAINT, "operator": "Exists", "effect": "NoSchedule"})
        found.append(_no_schedule(*AKS_GPU_TAINT))
    if launch.may_be_spot:
        found += [_no_schedule(key, value) for key, value in SPOT_TAINTS.items()]
    return found + [_toleration(text) for text in sorted(launch.shape.tolerations)]


def _no_schedule(key: str, value: str) -> Manifest:
    return {"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"}


def _toleration(taint: str) -> Manifest:
    """The toleration of a taint in the words of `taint_text`: `key=value:effect`."""
    rest, colon, effect = taint.rpartition(":") if ":" in taint else (taint, "", "")
    key, equals, value = rest.partition("=")
    found: Manifest = {"key": key, "operator": "Equal" if equals else "Exists"}
    if equals:
        found["value"] = value
    return {**found, "effect": effect} if colon else found
