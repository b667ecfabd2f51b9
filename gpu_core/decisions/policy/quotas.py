"""The policy's quotas: nominal quota, borrowing and lending limits of teams and cohorts."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from gpu_core.decisions.catalog.product_names import nearest_gpu_types
from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name
from gpu_core.decisions.model.pydantic_errors import parsed_by
from gpu_core.decisions.model.section import Name, Section, Weight
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI
from gpu_core.decisions.policy.flavor_keys import ANY, parse_flavor_key, takes_from

_GPUS_HELP = "GPUs, 0 or more, with at most three decimals"


def _milli(value: object, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(field, "is not a number of GPUs", got=value, allowed=_GPUS_HELP)
    try:
        milli = Fraction(str(value)) * WHOLE_GPU_MILLI
    except ValueError:
        raise InvalidInput(field, "is not finite", got=value, allowed=_GPUS_HELP) from None
    if milli < 0 or milli.denominator != 1:
        raise InvalidInput(field, "is not a number of GPUs", got=value, allowed=_GPUS_HELP)
    return int(milli)


FlavorKey = Annotated[str, parsed_by(parse_flavor_key)]
GpusMilli = Annotated[int, parsed_by(_milli)]


class Quota(Section):
    """The quota of a team or cohort. Numbers are GPUs, by flavor."""

    nominal_quota_milli: Mapping[FlavorKey, GpusMilli] | None = Field(
        default=None, alias="nominal_quota", examples=[{"any": 8}]
    )
    """The number of GPUs that are always available to this team or cohort, by flavor. A flavor that
    is not listed has a quota of 0. If not set, the quota is determined by the strategy."""
    borrowing_limit_milli: Mapping[FlavorKey, GpusMilli] = Field(
        default={}, alias="borrowing_limit", examples=[{"any": 4}]
    )
    """The maximum number of GPUs that can be borrowed in addition to the nominal quota, by flavor.
    If a flavor is not listed, all idle GPUs of this flavor can be borrowed."""
    lending_limit_milli: Mapping[FlavorKey, GpusMilli] = Field(
        default={}, alias="lending_limit", examples=[{"any": 4}]
    )
    """The maximum number of GPUs of this quota that others can borrow, by flavor. If a flavor is
    not listed, others can borrow all of them."""
    weight: Weight = 1.0
    """The weight of this team or cohort, relative to its siblings, when the strategy divides
    GPUs."""


class TeamQuota(Quota):
    """The quota of a single team."""

    cohort: Name | None = None
    """The cohort from which the team borrows first. If not set, the team borrows from all teams."""
    max_gpus_per_user: Annotated[int, Field(ge=0)] | None = None
    """The maximum number of GPUs that each user of the team can hold at the same time. If not set,
    there is no limit."""


class CohortQuota(Quota):
    """A group of teams or cohorts that borrow from each other first.

    The nominal quota of a cohort is added to the quotas of the members and can be used by any of
    them.
    """

    parent: Name | None = None
    """The parent cohort. If not set, the cohort does not have a parent."""


class QuotaPolicy(Section):
    """The number of GPUs that each team can use. If this section is not set, teams are not limited.

    Teams and cohorts with a nominal quota receive exactly that quota. From the remaining GPUs, the
    strategy reserves a part for the teams without a nominal quota, in proportion to their weights.
    All teams share the rest.
    """

    strategy: Literal["static", "dynamic", "hybrid"] = "hybrid"
    """How the remaining GPUs are divided. `static` reserves all of them for teams and does not lend
    any. `dynamic` does not reserve any. `hybrid` reserves the fraction `reserved_ratio`, lends
    quota that is idle, and reclaims it when the owner needs it."""
    reserved_ratio: Annotated[float, Field(ge=0, le=1)] = 0.3
    """The fraction of the remaining GPUs that is reserved for teams. Only used with the strategy
    `hybrid`."""
    unlisted: Literal["shared", "refused"] = "shared"
    """How to handle runs without a team, or with a team that is not listed. `shared` allows these
    runs to borrow GPUs. With `refused`, they never start."""
    teams: Mapping[Name, TeamQuota] = Field(default={})
    cohorts: Mapping[Name, CohortQuota] = Field(default={})

    def max_gpus_per_user(self, team: str | None) -> int | None:
        """How many GPUs may a user of this team hold at once? None: no limit."""
        listed_team = None if team is None else self.teams.get(team)
        return None if listed_team is None else listed_team.max_gpus_per_user

    def buckets(self) -> frozenset[str]:
        """The flavor keys that quota is counted by: all that the policy names, and `*`."""
        named = (
            key
            for _, quota in _members(self)
            for key in (*(quota.nominal_quota_milli or ()), *quota.borrowing_limit_milli)
        )
        return frozenset({ANY, *named})


def quota_contradictions(policy: QuotaPolicy) -> list[InvalidInput]:
    """The parts of this section that contradict each other.

    Returns:
        An error for each, with field paths from `quotas` on; none: it can be used.
    """
    errors = [*_unknown_cohorts(policy), *_cycles(policy)]
    if policy.strategy != "hybrid" and "reserved_ratio" in policy.model_fields_set:
        errors.append(_no_effect("quotas.reserved_ratio", policy.strategy))
    for path, quota in _members(policy):
        errors += _without_effect(path, quota, policy)
        errors += _gaps(path, quota, policy.buckets())
    for name, team in policy.teams.items():
        errors += _lent_above_nominal(f"quotas.teams.{name}", team)
    return errors


def _members(policy: QuotaPolicy) -> Iterator[tuple[str, Quota]]:
    for name, team in policy.teams.items():
        yield f"quotas.teams.{name}", team
    for name, cohort in policy.cohorts.items():
        yield f"quotas.cohorts.{name}", cohort


def _unknown_cohorts(policy: QuotaPolicy) -> Iterator[InvalidInput]:
    named = [(f"quotas.teams.{name}.cohort", team.cohort) for name, team in policy.teams.items()]
    named += [(f"quotas.cohorts.{name}.parent", c.parent) for name, c in policy.cohorts.items()]
    for field, cohort in named:
        if cohort is not None and cohort not in policy.cohorts:
            yield InvalidInput(
                field,
                "is not one of the cohorts",
                got=cohort,
                allowed=listed(policy.cohorts),
                nearest=nearest_name(cohort, policy.cohorts),
            )


def _cycles(policy: QuotaPolicy) -> Iterator[InvalidInput]:
    for name in sorted(policy.cohorts):
        path = _ancestors(name, policy.cohorts)
        # Each cycle once: at its first name.
        if path[-1] == name and len(path) > 1 and name == min(path):
            yield InvalidInput(
                f"quotas.cohorts.{name}.parent",
                "is a cycle",
                got=" → ".join(path),
                remedy="leave out the parent of the one that holds the others",
            )


def _ancestors(name: str, cohorts: Mapping[str, CohortQuota]) -> list[str]:
    """The cohort and those above it, to the top or to the first that comes twice."""
    path = [name]
    while (above := cohorts[path[-1]].parent) is not None and above in cohorts:
        path.append(above)
        if above in path[:-1]:
            break
    return path


def _without_effect(path: str, quota: Quota, policy: QuotaPolicy) -> Iterator[InvalidInput]:
    pointless = {
        "static": ["borrowing_limit", "lending_limit"],
        "dynamic": ["nominal_quota", "lending_limit"],
        "hybrid": [],
    }[policy.strategy]
    if policy.strategy == "static" and isinstance(quota, CohortQuota):
        pointless = ["nominal_quota", *pointless]
    for field in pointless:
        if getattr(quota, f"{field}_milli"):
            yield _no_effect(f"{path}.{field}", policy.strategy)


def _no_effect(field: str, strategy: str) -> InvalidInput:
    return InvalidInput(
        field,
        f"has no effect with strategy {strategy}",
        remedy="remove it or use strategy hybrid",
    )


def _lent_above_nominal(path: str, team: TeamQuota) -> Iterator[InvalidInput]:
    if team.nominal_quota_milli is None:
        return
    for key, lent_milli in team.lending_limit_milli.items():
        nominal_milli = team.nominal_quota_milli.get(key, 0)
        if lent_milli > nominal_milli:
            yield InvalidInput(
                f"{path}.lending_limit.{key}",
                "exceeds the quota that can be lent",
                got=lent_milli / WHOLE_GPU_MILLI,
                allowed=f"at most its nominal_quota, {nominal_milli / WHOLE_GPU_MILLI:g}",
            )


def _gaps(path: str, quota: Quota, buckets: frozenset[str]) -> Iterator[InvalidInput]:
    for field in ("nominal_quota", "borrowing_limit", "lending_limit"):
        keys = getattr(quota, f"{field}_milli") or {}
        for key in sorted(keys):
            if key not in buckets:
                yield InvalidInput(
                    f"{path}.{field}.{key}",
                    "is a flavor that is not used in any nominal_quota or borrowing_limit",
                    allowed=listed(buckets),
                    nearest=nearest_gpu_types(key, buckets),
                )
            for part in sorted(buckets - set(keys)):
                if takes_from(part, key):
                    yield InvalidInput(
                        f"{path}.{field}",
                        f"does not specify a value for {part}",
                        got=f"a number for {key}, while {part} is counted by itself",
                        remedy=f"add {part}",
                    )
