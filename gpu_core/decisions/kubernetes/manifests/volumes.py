"""The volumes of a run in a pod, and where its container sees them."""

from collections.abc import Iterator
from typing import NamedTuple

from gpu_core.decisions.kubernetes.manifests.environment import GANG_FILE, NOTICE_DIR, RUN_DIR
from gpu_core.decisions.kubernetes.manifests.launch import Launch
from gpu_core.decisions.kubernetes.manifests.merge import Manifest
from gpu_core.decisions.kubernetes.manifests.names import GANG_ANNOTATION, NOTICE_ANNOTATION
from gpu_core.decisions.kubernetes.variables.quantities import format_memory
from gpu_core.decisions.model.errors import InvalidInput, listed
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from gpu_core.decisions.requests.runs.run_context import NOTICE_FILE

SHM_PATH = "/dev/shm"  # noqa: S108 - the path in the container, not a file of ours


class Mounted(NamedTuple):
    """A volume and its mount."""

    volume: Manifest
    mount: Manifest


def required_volumes(launch: Launch) -> Iterator[Mounted]:
    """The volumes for the run's small files and for its notice.

    Two folders, because a downward-API volume cannot be written to. The kubelet replaces its file
    by another one whenever the annotation changes, so a reader sees the old one or the new one;
    while there is no annotation the file is empty.
    """
    yield _mounted("prefect-gpu-run", {"emptyDir": {}}, RUN_DIR)
    items = [_from_annotation(NOTICE_FILE, NOTICE_ANNOTATION)]
    if launch.is_gang and launch.is_flow:
        items.append(_from_annotation(GANG_FILE, GANG_ANNOTATION))
    yield _mounted(
        "prefect-gpu-notice", {"downwardAPI": {"items": items}}, NOTICE_DIR, read_only=True
    )


def _from_annotation(path: str, annotation: str) -> Manifest:
    return {"path": path, "fieldRef": {"fieldPath": f"metadata.annotations['{annotation}']"}}


def shm_volume(size_mib: int) -> Mounted:
    """Shared memory of this size: Kubernetes' own default of 64 MiB starves data loaders.

    What is written to it counts against the container's memory limit, so it is a part of that.
    """
    source = {"emptyDir": {"medium": "Memory", "sizeLimit": format_memory(size_mib)}}
    return _mounted("prefect-gpu-shm", source, SHM_PATH)


def wished_volumes(launch: Launch, policy: KubernetesPolicy) -> Iterator[Mounted]:
    """The run's own volumes and the model cache.

    Raises:
        InvalidInput: Two of them would be at the same place, or one where ours are.
    """
    _check_places(launch, policy)
    for number, mount in enumerate(launch.pod.volumes):
        name = f"prefect-gpu-{number}"
        yield _mounted(name, _claim(mount.claim), mount.mount_path, read_only=mount.read_only)
    cache = policy.model_cache
    if cache is None or not launch.pod.model_cache:
        return
    folder: Manifest = {"hostPath": {"path": cache.host_path, "type": "DirectoryOrCreate"}}
    source = folder if cache.claim is None else _claim(cache.claim)
    yield _mounted("prefect-gpu-models", source, cache.mount_path, read_only=cache.is_read_only)


def _check_places(launch: Launch, policy: KubernetesPolicy) -> None:
    taken = {SHM_PATH, RUN_DIR, NOTICE_DIR}
    if policy.model_cache is not None and launch.pod.model_cache:
        taken.add(policy.model_cache.mount_path)
    for number, mount in enumerate(launch.pod.volumes):
        if mount.mount_path in taken:
            raise InvalidInput(
                f"volumes.{number}.mount_path",
                "is taken",
                got=mount.mount_path,
                allowed=f"a path of its own, none of {listed(taken)}",
            )
        taken.add(mount.mount_path)


def _claim(name: str) -> Manifest:
    return {"persistentVolumeClaim": {"claimName": name}}


def _mounted(name: str, source: Manifest, path: str, *, read_only: bool = False) -> Mounted:
    mount: Manifest = {"name": name, "mountPath": path}
    return Mounted({"name": name, **source}, {**mount, "readOnly": True} if read_only else mount)
