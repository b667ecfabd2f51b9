"""The policy's section `permissions`: limits on what runs may ask for, by team."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated

from pydantic import Field

from gpu_core.decisions.errors import InvalidInput, listed, nearest_name
from gpu_core.decisions.policy_base import Name, Section, parse_budget
from gpu_core.decisions.validation import parsed_by


class Permission(Section):
    """What a run may ask for. None: anything."""

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
    """The GPU types that it may use; with `gpu_type: auto` it gets these, in this order, or
    with `work` those of them that hold it, the cheapest first."""


class PermissionPolicy(Section):
    """What runs may ask for. Without this section any run may ask for anything."""

    default: Permission = Permission()
    """For runs of a team that is not listed, and of no team."""
    teams: Mapping[Name, Permission] = Field(default={})
    """By team. A key that a team leaves out is the default's."""

    def of(self, team: str | None) -> Permission:
        """What may a run of this team ask for?"""
        own = None if team is None else self.teams.get(team)
        if own is None:
            return self.default
        stated = {name: getattr(own, name) for name in own.model_fields_set}
        return self.default.model_copy(update=stated)


def permission_contradictions(
    policy: PermissionPolicy, priorities: Collection[str]
) -> list[InvalidInput]:
    """Which permissions name queues that the policy does not have?"""
    sections = {"permissions.default": policy.default}
    sections |= {f"permissions.teams.{team}": own for team, own in policy.teams.items()}
    return [
        error
        for field, permission in sections.items()
        for error in _unknown_queues(f"{field}.queues", permission.queues or (), priorities)
    ]


def _unknown_queues(
    field: str, queues: Sequence[str], priorities: Collection[str]
) -> Iterator[InvalidInput]:
    for queue in queues:
        if queue not in priorities:
            yield InvalidInput(
                field,
                "names a queue without a priority",
                got=queue,
                allowed=listed(priorities),
                nearest=nearest_name(queue, priorities),
            )
