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
    """The permission of a run: what it may ask for. None: anything."""

    queues: Sequence[Name] | None = None
    """The queues whose priority it may have, by its work queue or by `gpu_priority`."""
    non_preemptible: bool = True
    """It may set `preemptible: false`, or a `min_runtime` over the policy's."""
    move_up: bool = True
    """The tag `gpu:first` may put it before all others."""
    max_gpus_per_run: Annotated[int, Field(ge=0)] | None = None
    """GPUs over all its nodes."""
    max_budget_micro_usd: Annotated[int, parsed_by(parse_budget)] | None = Field(
        default=None, alias="max_budget_usd"
    )
    """The largest `budget_usd`; a run that states none gets this one."""
    gpu_types: Annotated[Sequence[Name], Field(min_length=1)] | None = None
    """The GPU types that it may use. With `gpu_type: auto` it gets these, in this order. With
    `work` it gets those of them that hold the work, the cheapest first."""

    # What the job variables of runs and deployments may add to a Job on Kubernetes, apart from what
    # the pool's base job template names itself. Left out: anything, with a warning.
    service_accounts: Names = None
    """ServiceAccounts that it may name; never the worker's own."""
    secrets: Names = None
    """Secrets for variables, volumes and image pulls."""
    config_maps: Names = None
    """ConfigMaps for variables and volumes."""
    claims: Names = None
    """PersistentVolumeClaims, those of the job variable `volumes` included."""
    namespaces: Names = None
    """Namespaces in addition to the pool's own."""
    host_paths: Sequence[Annotated[str, parsed_by(_host_path)]] | None = None
    """Folders of the nodes, with all that is in them."""
    pod_fields: Sequence[Name] | None = None
    """Pod fields of `docs/security.md`, such as `hostNetwork` or the volume type `nfs`."""

    def names(self, what: Referred) -> Sequence[str] | None:
        """The names of this kind that a run may bring; None: any."""
        found: Sequence[str] | None = getattr(self, what.value)
        return found

    def is_stated(self, what: Referred) -> bool:
        """Does the policy say anything of names of this kind, if only `null`?"""
        return what.value in self.model_fields_set


class PermissionPolicy(Section):
    """The permissions of runs. Without this section any run may ask for anything."""

    default: Permission = Permission()
    """For runs of a team that is not listed, and of no team."""
    teams: Mapping[Name, Permission] = Field(default={})
    """By team. A key that a team leaves out is the default's."""

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
                "names a field that no run needs a permission for",
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
