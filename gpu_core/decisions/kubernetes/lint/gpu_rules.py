"""Rules about GPUs, and the memory of their nodes."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from gpu_core.decisions.kubernetes.lint.findings import (
    LintFinding,
    PodPlace,
    Severity,
    items,
    mapping,
    objects,
)
from gpu_core.decisions.kubernetes.nodes.clouds import (
    GPU_TAINT,
    INSTANCE_TYPE_LABEL,
    LAUNCHES_BY_LABEL,
)
from gpu_core.decisions.kubernetes.variables.quantities import format_memory, parse_quantity
from gpu_core.decisions.model.errors import InvalidInput

_GPU_PREFIX = "nvidia.com/"
# Machine types that have a part of a GPU and offer no `nvidia.com/gpu`.
_SPLIT_MACHINES = ("g6f.", "gr6f.")


def whole_gpus(pod: PodPlace) -> Iterator[LintFinding]:
    """A GPU resource is a whole number, with its limit equal to its request."""
    for path, container in pod.containers():
        requests, limits = _gpus(container, "requests"), _gpus(container, "limits")
        for kind, amounts in (("requests", requests), ("limits", limits)):
            for name, amount in amounts.items():
                if not _is_whole(amount):
                    yield LintFinding(
                        code="gpu-not-whole",
                        path=f"{path}.resources.{kind}.{name}",
                        problem=(
                            f"{amount!r} is not a whole number and is rejected by the API server"
                        ),
                        remedy="request whole GPUs, a MIG instance or one replica of a shared GPU",
                    )
        for name, amount in requests.items():
            if limits.get(name) is None or str(limits[name]) != str(amount):
                yield LintFinding(
                    code="gpu-limit-differs",
                    path=f"{path}.resources.requests.{name}",
                    problem=(
                        f"the request {amount!r} must be equal to the limit {limits.get(name)!r}"
                    ),
                    remedy="specify only the limit, which is also used as the request",
                )


def visible_devices(pod: PodPlace) -> Iterator[LintFinding]:
    """A container with GPUs leaves the choice of devices to the device plugin."""
    for path, container in pod.containers():
        if not _gpus(container, "limits"):
            continue
        for index, item in objects(container.get("env")):
            if item.get("name") == "NVIDIA_VISIBLE_DEVICES":
                yield LintFinding(
                    code="gpu-visible-devices",
                    path=f"{path}.env[{index}]",
                    problem="it comes after the device plugin's and shows the neighbors' GPUs",
                    remedy="leave it out",
                )


def launched_gpus(pod: PodPlace) -> Iterator[LintFinding]:
    """Karpenter knows whole GPUs alone; some machines have not even one."""
    names = {name for _, container in pod.containers() for name in _gpus(container, "limits")}
    parts = sorted(name for name in names if name not in pod.policy.all_gpu_resources)
    if parts and pod.policy.provisioner in LAUNCHES_BY_LABEL and not pod.is_pinned:
        yield LintFinding(
            code="karpenter-gpu-part",
            path=pod.at("spec.containers"),
            problem=(
                f"no nodes are provisioned for {parts[0]}, which only exists after a "
                "node has joined"
            ),
            remedy="provision such nodes in advance or describe them in a NodeOverlay",
            severity=Severity.WARNING,
        )
    for path, condition in pod.conditions():
        machines = [str(value) for value in items(condition.get("values"))]
        if condition.get("key") != INSTANCE_TYPE_LABEL or condition.get("operator") != "In":
            continue
        if names and machines and all(m.startswith(_SPLIT_MACHINES) for m in machines):
            yield LintFinding(
                code="gpu-split-machine",
                path=path,
                problem=(
                    f"{machines[0]} has a fraction of a GPU and does not provide nvidia.com/gpu"
                ),
                remedy="specify instance types with whole GPUs",
            )


def gpu_toleration(pod: PodPlace) -> Iterator[LintFinding]:
    """A pod with GPUs tolerates the taint that keeps others off their nodes."""
    if not asks_for_gpus(pod):
        return
    tolerated = [item.get("key") for _, item in objects(pod.spec.get("tolerations"))]
    if GPU_TAINT not in tolerated and None not in tolerated:
        yield LintFinding(
            code="gpu-toleration",
            path=pod.at("spec.tolerations"),
            problem="GPU nodes usually have the taint nvidia.com/gpu",
            remedy="add a toleration for nvidia.com/gpu with operator Exists and effect NoSchedule",
            severity=Severity.WARNING,
        )


def shared_memory(pod: PodPlace) -> Iterator[LintFinding]:
    """A memory-backed volume fits into the memory of the containers that write to it."""
    for index, volume in objects(pod.spec.get("volumes")):
        source = mapping(volume.get("emptyDir"))
        if source.get("medium") != "Memory":
            continue
        path = pod.at(f"spec.volumes[{index}].emptyDir.sizeLimit")
        size = _bytes(source.get("sizeLimit"))
        if size is None:
            yield LintFinding(
                code="shm-unbounded",
                path=path,
                problem="if no size is specified, up to half of the node's memory can be used",
                remedy="`sizeLimit` must be less than the container's memory limit",
                severity=Severity.WARNING,
            )
            continue
        for limit in _memory_limits(pod, volume.get("name")):
            if limit is not None and size > limit:
                yield LintFinding(
                    code="shm-beyond-memory",
                    path=path,
                    problem="files in this volume count against the memory limit of "
                    f"{format_memory(int(limit) // 1024**2)}, which is smaller",
                    remedy="increase the memory limit or reduce `sizeLimit`",
                )


def asks_for_gpus(pod: PodPlace) -> bool:
    """Does one of its containers ask for a device of NVIDIA's?"""
    return any(_gpus(container, "limits") for _, container in pod.containers())


def _memory_limits(pod: PodPlace, volume: Any) -> Iterator[Fraction | None]:
    for _, container in pod.containers():
        mounts = objects(container.get("volumeMounts"))
        if any(mount.get("name") == volume for _, mount in mounts):
            limits = mapping(mapping(container.get("resources")).get("limits"))
            yield _bytes(limits.get("memory"))


def _gpus(container: Mapping[str, Any], kind: str) -> dict[str, Any]:
    amounts = mapping(mapping(container.get("resources")).get(kind))
    return {name: amount for name, amount in amounts.items() if str(name).startswith(_GPU_PREFIX)}


def _is_whole(amount: Any) -> bool:
    try:
        return parse_quantity(amount, "amount").denominator == 1
    except InvalidInput:
        return False


def _bytes(amount: Any) -> Fraction | None:
    try:
        return None if amount is None else parse_quantity(amount, "amount")
    except InvalidInput:
        return None


GPU_RULES = (whole_gpus, visible_devices, launched_gpus, gpu_toleration, shared_memory)
