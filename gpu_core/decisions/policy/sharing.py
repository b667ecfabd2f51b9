"""The offers of a cluster's device plugins: the names of GPUs, whole or in parts.

The names and numbers of the policy hold for all nodes, but for those of a pool that has its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.section import Name, Section

MigStrategy = Literal["mixed", "single"]
SharesPerGpu = Annotated[int, Field(ge=2, le=64)]

MIG_PREFIX = "nvidia.com/mig-"
"""With the strategy `mixed` each profile has its resource, whose name begins so."""


class NodePoolSharing(Section):
    """Settings for the GPUs of specific nodes. They override the settings for all nodes."""

    match_labels: Annotated[Mapping[Name, str], Field(min_length=1)]
    """Labels that select the nodes. If a node matches several entries, the first one is used."""
    gpu_resource: Name | None = None
    """The resource name of whole GPUs. If not set, the value for all nodes is used."""
    shared_gpu_resource: Name | None = None
    """The resource name of shared GPUs. If not set, the value for all nodes is used."""
    shares_per_gpu: SharesPerGpu | None = None
    """The number of replicas of each GPU. This also applies to nodes that have not been added
    yet."""
    mig_strategy: MigStrategy | None = None
    """The MIG strategy of the device plugin. If not set, the value for all nodes is used."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Is a node with these labels of this pool?"""
        return self.match_labels.items() <= labels.items()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingSettings:
    """The settings of a node's device plugin in the policy."""

    gpu_resource: str
    shared_gpu_resource: str
    shares_per_gpu: int
    mig_strategy: MigStrategy
    is_shared: bool
    """The node's own pool says that its GPUs are shared."""
    stated: Mapping[str, str]
    """The place in the policy, by field; a missing field is a default."""


SHARING_FIELDS = ("gpu_resource", "shared_gpu_resource", "shares_per_gpu", "mig_strategy")


def sharing_contradictions(pools: tuple[NodePoolSharing, ...]) -> list[InvalidInput]:
    """The node pools to which no node ever belongs."""
    errors = []
    for number, pool in enumerate(pools):
        for earlier, other in enumerate(pools[:number]):
            if other.match_labels.items() <= pool.match_labels.items():
                errors.append(
                    InvalidInput(
                        f"kubernetes.node_pools.{number}.match_labels",
                        f"are already matched by entry {earlier}",
                        got=dict(pool.match_labels),
                        remedy="put the entry with more labels first",
                    )
                )
                break
    return errors


def field_of(sharing: SharingSettings, name: str) -> str:
    """The field of the policy that says this, as a clause."""
    return f"the policy's {sharing.stated.get(name, f'kubernetes.{name}')}"


def stated_fields(pool: Section, where: str) -> dict[str, str]:
    """The fields of sharing that this section names, each with its path."""
    names = (name for name in SHARING_FIELDS if name in pool.model_fields_set)
    return {name: f"{where}.{name}" for name in names if getattr(pool, name) is not None}
