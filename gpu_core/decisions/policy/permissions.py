"""The policy's section `permissions`: limits on what runs may ask for, by team."""

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name
from gpu_core.decisions.model.pydantic_errors import parsed_by
from gpu_core.decisions.model.section import Name, Section, parse_budget
from gpu_core.decisions.policy.kubernetes import ObjectName
from gpu_core.decisions.policy.pod_fields import POD_FIELDS

# POSIX leaves two slashes at the front to others, and `normpath` leaves them alone.
_ABSOLUTE = re.compile("/(?!/)")


def _host_path(value: object, field: str) -> str:
    if (
        not isinstance(value, str)
        or posixpath.normpath(value) != value
        or not _ABSOLUTE.match(value)
    ):
        raise InvalidInput(
            field,
            "is not a path",
            got=value,
            allowed="an absolute path without '..', such as /data",
        )
    return value


Names = Sequence[ObjectName] | None


class Referred(StrEnum):
    """The kind of object that is referred to; the value is its key in a permission of the
    policy."""

    SERVICE_ACCOUNT = "service_accounts"
    SECRET = "secrets"  # noqa: S105 - the key of a list of names
    CONFIG_MAP = "config_maps"
    CLAIM = "claims"
    NAMESPACE = "namespaces"
    HOST_PATH = "host_paths"
    POD_FIELD = "pod_fields"

    @property
    def noun(self) -> str:
        """The usual name of it."""
        return _NOUNS[self]


class Permission(Section):
    """The permissions of a run. If a key is null, it is not restricted."""

    queues: Sequence[Name] | None = None
    """A list of queues from which the run can take its priority, either through its work queue or
    with `gpu_priority`."""
    non_preemptible: bool = True
    """Whether the run can set `preemptible: false`, or a `min_runtime` that is longer than the one
    in the policy."""
    move_up: bool = True
    """Whether the run can be moved to the front of the queue with the tag `gpu:first`."""
    max_gpus_per_run: Annotated[int, Field(ge=0)] | None = None
    """The maximum number of GPUs across all nodes of the run."""
    max_budget_micro_usd: Annotated[int, parsed_by(parse_budget)] | None = Field(
        default=None, alias="max_budget_usd"
    )
    """The maximum value of `budget_usd`. If a run does not set a budget, this value is used."""
    gpu_types: Annotated[Sequence[Name], Field(min_length=1)] | None = None
    """A list of GPU types that the run can use. With `gpu_type: auto`, the types are tried in this
    order. If `work` is set, only the types with enough memory for the work are tried, starting with
    the cheapest."""

    # What the job variables of runs and deployments may add to a Job on Kubernetes, apart from what
    # the pool's base job template names itself. Left out: anything, with a warning.
    service_accounts: Names = None
    """A list of ServiceAccounts that the run can use. The ServiceAccount of the worker is never
    allowed."""
    secrets: Names = None
    """A list of Secrets that can be used in environment variables, in volumes, and for pulling
    images."""
    config_maps: Names = None
    """A list of ConfigMaps that can be used in environment variables and volumes."""
    claims: Names = None
    """A list of PersistentVolumeClaims that can be mounted. This includes the claims in the job
    variable `volumes`."""
    namespaces: Names = None
    """A list of additional namespaces in which the run can be created. The namespace of the pool is
    always allowed."""
    host_paths: Sequence[Annotated[str, parsed_by(_host_path)]] | None = None
    """A list of directories on the nodes that can be mounted. Subdirectories are included."""
    pod_fields: Sequence[Name] | None = None
    """A list of pod fields from `docs/security.md` that the run can set, for example `hostNetwork`
    or the volume type `nfs`."""

    def names(self, what: Referred) -> Sequence[str] | None:
        """The names of this kind that a run may bring; None: any."""
        found: Sequence[str] | None = getattr(self, what.value)
        return found

    def is_stated(self, what: Referred) -> bool:
        """Does the policy say anything of names of this kind, if only `null`?"""
        return what.value in self.model_fields_set


class PermissionPolicy(Section):
    """The permissions of runs. If this section is not set, runs are not restricted."""

    default: Permission = Permission()
    """The permissions of runs without a team, or with a team that is not listed."""
    teams: Mapping[Name, Permission] = Field(default={})
    """The permissions of each team. If a team does not set a key, the value of `default` is
    used."""

    def of(self, team: str | None) -> Permission:
        """The permission of a run of this team."""
        own = None if team is None else self.teams.get(team)
        if own is None:
            return self.default
        stated = {name: getattr(own, name) for name in own.model_fields_set}
        return self.default.model_copy(update=stated)


def permission_contradictions(
    policy: PermissionPolicy, priorities: Collection[str]
) -> list[InvalidInput]:
    """The permissions that name queues or fields that do not exist."""
    sections = {"permissions.default": policy.default}
    sections |= {f"permissions.teams.{team}": own for team, own in policy.teams.items()}
    return [
        error
        for field, permission in sections.items()
        for error in (
            *_unknown(
                f"{field}.queues",
                "names a queue without a priority",
                permission.queues,
                priorities,
            ),
            *_unknown(
                f"{field}.pod_fields",
                "contains a field that does not require a permission",
                permission.pod_fields,
                POD_FIELDS,
            ),
        )
    ]


def _unknown(
    field: str, problem: str, names: Sequence[str] | None, known: Collection[str]
) -> Iterator[InvalidInput]:
    for name in names or ():
        if name not in known:
            yield InvalidInput(
                field,
                problem,
                got=name,
                allowed=listed(known, limit=len(POD_FIELDS)),
                nearest=nearest_name(name, known),
            )


_NOUNS: Mapping[Referred, str] = {
    Referred.SERVICE_ACCOUNT: "ServiceAccount",
    Referred.SECRET: "Secret",
    Referred.CONFIG_MAP: "ConfigMap",
    Referred.CLAIM: "PersistentVolumeClaim",
    Referred.NAMESPACE: "namespace",
    Referred.HOST_PATH: "host path",
    Referred.POD_FIELD: "pod field",
}
