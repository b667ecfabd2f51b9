"""The capabilities of a version of Kubernetes, as far as the manifests depend on them."""

import re
from dataclasses import asdict, dataclass

from gpu_core.decisions.model.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The fields that the API server accepts and acts upon, rather than drops silently."""

    indexed_jobs: bool = True
    """`completionMode: Indexed`; without it a gang is one Job for each node."""
    pod_failure_policy: bool = True
    """`podFailurePolicy`; without it an eviction is recognized by the pod's conditions alone, and a
    pod that is being deleted is replaced while it still ends."""
    suspended_jobs: bool = True
    """`suspend`, which Kueue needs."""
    fs_group_change_policy: bool = True
    """`fsGroupChangePolicy`; without it each start goes through every file of a volume."""

    @property
    def gangs_in_one_job(self) -> bool:
        """Whether an Indexed Job may run a gang.

        Where a pod can be replaced too early, no label has its rank, by which the two could be
        kept apart (that came with 1.28).
        """
        return self.indexed_jobs and self.pod_failure_policy


def capabilities_of(version: str) -> Capabilities:
    """The capabilities of a version of Kubernetes.

    A capability counts from the version on that has it without a feature gate (Kubernetes change
    logs: fsGroupChangePolicy beta in 1.20, Indexed and suspended Jobs beta in 1.22,
    podFailurePolicy beta in 1.26).

    Args:
        version: Such as `1.34` or `v1.34.2-eks-1`.

    Raises:
        InvalidInput: It is not a version.
    """
    match = re.match(r"v?(\d+)\.(\d+)", version)
    if match is None:
        raise InvalidInput(
            "kubernetes.version", "is not a version", got=version, allowed="text such as '1.34'"
        )
    number = (int(match[1]), int(match[2]))
    return Capabilities(
        indexed_jobs=number >= (1, 22),
        pod_failure_policy=number >= (1, 26),
        suspended_jobs=number >= (1, 22),
        fs_group_change_policy=number >= (1, 20),
    )


def why_too_old(stated: str, server: str) -> str | None:
    """The reason why manifests for the stated version do not suit this server; None: they do.

    An API server drops fields that it does not know without a word, so that a gang would start as
    pods without ranks, and Kubernetes would replace pods as well as the worker.

    Args:
        stated: The policy's `kubernetes.version`.
        server: What the API server says of itself, such as `v1.25.4-gke.1`.

    Raises:
        InvalidInput: One of them is not a version.
    """
    wanted, there = asdict(capabilities_of(stated)), asdict(capabilities_of(server))
    missing = [_FIELDS[name] for name in wanted if wanted[name] and not there[name]]
    if not missing:
        return None
    match = re.match(r"v?(\d+\.\d+)", server)
    number = server if match is None else match[1]
    return (
        f"Kubernetes {number} does not support {', '.join(missing)}, which manifests for "
        f"{stated} require. Please change `kubernetes.version` in the policy from "
        f"{stated!r} to {number!r}."
    )


_FIELDS = {
    "indexed_jobs": "completionMode",
    "pod_failure_policy": "podFailurePolicy",
    "suspended_jobs": "suspend",
    "fs_group_change_policy": "fsGroupChangePolicy",
}
