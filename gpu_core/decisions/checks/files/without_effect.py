"""The settings of a policy that change nothing, and those that let nothing start."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from gpu_core.decisions.checks.files.findings import FileFinding
from gpu_core.decisions.kubernetes.lint import Severity
from gpu_core.decisions.model.section import Section
from gpu_core.decisions.policy.backfill import Backfill
from gpu_core.decisions.policy.kubernetes import Provisioner
from gpu_core.decisions.policy.ordering import OrderKey
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.policy.preemption import TakesFrom
from gpu_core.decisions.policy.quotas import QuotaPolicy

WITHOUT_EFFECT = "without-effect"
NOTHING_STARTS = "nothing-starts"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """Some keys of one section that need another key."""

    section: str
    keys: tuple[str, ...]
    """Names of fields; none: all of the section but `besides`."""
    besides: tuple[str, ...] = ()
    is_idle: Callable[[Policy], bool]
    """Do the keys change nothing?"""
    why: str


def _has_no_key(key: OrderKey) -> Callable[[Policy], bool]:
    return lambda policy: key not in policy.ordering.keys


_RULES = (
    _Rule(
        section="fair_share",
        keys=(),
        is_idle=_has_no_key(OrderKey.FAIR_SHARE),
        why="`ordering.keys` does not contain fair-share",
    ),
    _Rule(
        section="ordering",
        keys=("aging_points_per_hour",),
        is_idle=_has_no_key(OrderKey.PRIORITY),
        why="`ordering.keys` does not contain priority",
    ),
    _Rule(
        section="ordering",
        keys=("service_quantum_gpu_s", "service_levels"),
        is_idle=_has_no_key(OrderKey.LEAST_ATTAINED_SERVICE),
        why="`ordering.keys` does not contain least-attained-service",
    ),
    _Rule(
        section="backfill",
        keys=("depth",),
        is_idle=lambda policy: policy.backfill.mode is not Backfill.CONSERVATIVE,
        why="`backfill.mode` is not conservative",
    ),
    _Rule(
        section="preemption",
        keys=("takes_from",),
        is_idle=lambda policy: not policy.preemption.enabled,
        why="preemption.enabled is false",
    ),
    _Rule(
        section="preemption",
        keys=("max_protection_s",),
        is_idle=lambda policy: not (
            policy.preemption.enabled or policy.placement.consolidation.enabled
        ),
        why="`preemption.enabled` is false and consolidation is disabled",
    ),
    _Rule(
        section="preemption",
        keys=("spare_gpus",),
        is_idle=lambda policy: len({*policy.priorities.values()}) == 1,
        why="all queues have the same priority",
    ),
    _Rule(
        section="placement.consolidation",
        keys=(),
        besides=("enabled",),
        is_idle=lambda policy: not policy.placement.consolidation.enabled,
        why="`placement.consolidation.enabled` is false",
    ),
    _Rule(
        section="scale",
        keys=("waiting_s", "utilization", "queued", "idle_s"),
        is_idle=lambda policy: not policy.scale.offers
        and policy.kubernetes.provisioner is Provisioner.FIXED,
        why="`scale.offers` is empty, so that no nodes can be provisioned",
    ),
    _Rule(
        section="memory",
        keys=("max_divisor", "gpu_types", "max_cost_factor"),
        is_idle=lambda policy: policy.memory.action == "off",
        why="`memory.action` is off",
    ),
)  # fmt: skip


def settings_without_effect(
    policy: Policy, lines: Mapping[str, int], place: str | None
) -> list[FileFinding]:
    """The keys of the policy that change nothing, given the others, or let nothing start.

    They are warnings: a key may be there for the day on which the other one is set.

    Args:
        policy: It has been read without errors.
        lines: The line of each field, by its dotted path.
        place: Which of several objects in the file; None: the file has one.
    """
    found = [*_idle_keys(policy), *_no_preemption(policy), *_no_starts(policy)]
    return [
        FileFinding(
            severity=Severity.WARNING,
            code=code,
            place=place,
            path=path,
            line=lines.get(path),
            message=message,
        )
        for code, path, message in found
    ]


_Finding = tuple[str, str, str]


def _idle_keys(policy: Policy) -> Iterator[_Finding]:
    for rule in _RULES:
        section = _section(policy, rule.section)
        keys = rule.keys or tuple(k for k in type(section).model_fields if k not in rule.besides)
        stated = [key for key in keys if key in section.model_fields_set]
        if not stated or not rule.is_idle(policy):
            continue
        for key in stated:
            if getattr(section, key) != type(section).model_fields[key].get_default(
                call_default_factory=True, validated_data={}
            ):
                alias = type(section).model_fields[key].alias or key
                yield WITHOUT_EFFECT, f"{rule.section}.{alias}", f"has no effect because {rule.why}"


def _section(policy: Policy, path: str) -> Section:
    section: Section = policy
    for name in path.split("."):
        section = getattr(section, name)
    return section


def _no_preemption(policy: Policy) -> Iterator[_Finding]:
    preemption = policy.preemption
    is_by_priority = preemption.enabled and preemption.takes_from is TakesFrom.LOWER_PRIORITY
    points = set(policy.priorities.values())
    if is_by_priority and len(policy.priorities) > 1 and len(points) == 1:
        yield (
            WITHOUT_EFFECT,
            "priorities",
            "no runs will be preempted, because all queues have the same priority",
        )


_NO_GPUS = "is 0, which prevents all runs with GPUs from starting"
_NO_GPUS_OF_TEAM = "is 0, which prevents all GPU runs of this team from starting"


def _no_starts(policy: Policy) -> Iterator[_Finding]:
    quotas = policy.quotas
    teams = () if quotas is None else quotas.teams.values()
    if policy.limits.max_gpus_per_run == 0:
        yield NOTHING_STARTS, "limits.max_gpus_per_run", _NO_GPUS
    if policy.limits.max_gpus_per_user == 0 and all(not t.max_gpus_per_user for t in teams):
        yield NOTHING_STARTS, "limits.max_gpus_per_user", _NO_GPUS
    if quotas is not None and quotas.unlisted == "refused" and not quotas.teams:
        yield (
            NOTHING_STARTS,
            "quotas.teams",
            "is empty and `unlisted` is refused, which prevents all runs with GPUs from starting",
        )
    if quotas is not None:
        for name in sorted(quotas.teams):
            yield from _no_starts_of_team(name, quotas)


def _no_starts_of_team(name: str, quotas: QuotaPolicy) -> Iterator[_Finding]:
    team, path = quotas.teams[name], f"quotas.teams.{name}"
    if team.max_gpus_per_user == 0:
        yield NOTHING_STARTS, f"{path}.max_gpus_per_user", _NO_GPUS_OF_TEAM
    is_zero = team.nominal_quota_milli is not None and not any(team.nominal_quota_milli.values())
    limits = team.borrowing_limit_milli
    may_borrow = quotas.strategy != "static" and any(limits.get(b, 1) for b in quotas.buckets())
    if is_zero and not may_borrow:
        yield (
            NOTHING_STARTS,
            f"{path}.nominal_quota",
            "is 0 and the team is not allowed to borrow, which prevents all its GPU runs from "
            "starting",
        )
