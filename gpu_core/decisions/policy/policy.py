"""The policy: priorities, prices, preemption and limits, as one strictly checked value."""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated

from pydantic import Field

from gpu_core.decisions.catalog.sheet import Moment
from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name
from gpu_core.decisions.model.pydantic_errors import validated
from gpu_core.decisions.model.section import (
    CapacityType,
    Name,
    Points,
    PositiveDuration,
    PriceMicroUsd,
    Section,
    Version,
)
from gpu_core.decisions.policy.backfill import BackfillPolicy
from gpu_core.decisions.policy.budgets import BudgetPolicy, budget_contradictions
from gpu_core.decisions.policy.calendar import CalendarPolicy, calendar_contradictions
from gpu_core.decisions.policy.capacity import CapacityPolicy
from gpu_core.decisions.policy.fair_share import FairSharePolicy, fair_share_contradictions
from gpu_core.decisions.policy.hangs import HangPolicy
from gpu_core.decisions.policy.idle import IdlePolicy, idle_contradictions
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy, kubernetes_contradictions
from gpu_core.decisions.policy.memory import MemoryPolicy, memory_contradictions
from gpu_core.decisions.policy.ordering import OrderingPolicy, ordering_contradictions
from gpu_core.decisions.policy.permissions import PermissionPolicy, permission_contradictions
from gpu_core.decisions.policy.placement import PlacementPolicy
from gpu_core.decisions.policy.preemption import (
    PreemptionPolicy,
    preemption_contradictions,
)
from gpu_core.decisions.policy.quotas import QuotaPolicy, quota_contradictions
from gpu_core.decisions.policy.rates import CapacityRates
from gpu_core.decisions.policy.retention import RetentionPolicy
from gpu_core.decisions.policy.run_times import RunTimePolicy
from gpu_core.decisions.policy.scale import ScalePolicy, scale_contradictions
from gpu_core.decisions.policy.telemetry import TelemetryPolicy
from gpu_core.decisions.policy.waiting import WaitingPolicy, waiting_contradictions

PREFECT_DEFAULT_QUEUE = "default"
"""The queue that Prefect itself makes in every work pool."""


class VirtualGpus(Section):
    """Virtual GPUs that a process worker simulates on a machine without GPUs."""

    gpu_type: Name = Field(examples=["a100-80gb"])
    """The GPU type of the virtual GPUs."""
    count: Annotated[int, Field(ge=1, le=64)]
    """The number of virtual GPUs in the pool."""
    spot: Annotated[int, Field(ge=0, le=64)] = 0
    """The number of additional virtual GPUs that are treated as spot capacity."""


class CheckpointPolicy(Section):
    """Settings for saving and keeping checkpoints."""

    interval_s: PositiveDuration = Field(default=600, alias="interval")
    """The interval between two saves. Only used if the run does not set an interval and no interval
    can be computed."""
    keep: Annotated[int, Field(ge=1, le=1000)] = 2
    """The number of most recent checkpoints to keep for each run."""
    refuse_pickles: bool = False
    """If true, runs do not restore or save pickles. When a pickle is loaded, it can execute
    arbitrary code from anyone with write access to the store."""
    require_signatures: bool = False
    """If true, runs only restore checkpoints that are signed with a key of the pool."""


class Limits(Section):
    """Limits for individual runs and users. If a limit is null, it is not enforced."""

    max_gpus_per_run: Annotated[int, Field(ge=0)] | None = None
    """The maximum number of GPUs that a run can request across all nodes. A run that requests more
    GPUs is held."""
    max_duration_s: PositiveDuration | None = Field(default=None, alias="max_duration")
    """The maximum duration of an attempt. When this time is exceeded, the run ends with the state
    `TimedOut`."""
    max_gpus_per_user: Annotated[int, Field(ge=0)] | None = None
    """The maximum number of GPUs that a user can hold at the same time. If the team has its own
    limit, that limit takes precedence."""
    max_failures: Annotated[int, Field(ge=1)] = 3
    """The number of failures after which a run is not retried. Only failures of the run itself are
    counted."""


def limit_contradictions(limits: Limits) -> list[InvalidInput]:
    """The limit that permits runs which another limit keeps from ever starting."""
    per_run, per_user = limits.max_gpus_per_run, limits.max_gpus_per_user
    if per_run is None or per_user is None or per_run <= per_user:
        return []
    return [
        InvalidInput(
            "limits.max_gpus_per_run",
            "permits runs that exceed max_gpus_per_user and would remain pending indefinitely",
            got=per_run,
            allowed=f"at most max_gpus_per_user, {per_user}",
        )
    ]


class Policy(Section):
    """The scheduling rules of a single work pool."""

    version: Version = Field(examples=[1])
    """The version of the file format."""
    priorities: Mapping[Name, Points] = Field(
        default={"critical": 1_000_000, "high": 10_000, "medium": 1_000, "low": 100},
        examples=[{"high": 10000, "low": 100}],
    )
    """The priority points of each work queue. Runs in a queue with more points are scheduled
    first."""
    default_priority: str = "medium"
    """The queue from which runs in Prefect's `default` queue take their points."""
    prices: Mapping[Name, Mapping[CapacityType, PriceMicroUsd | None]] = Field(
        default={}, examples=[{"h100-80gb": {"on-demand": 4.25, "spot": 2.5}}]
    )
    """Prices by GPU type and capacity type. A GPU type that is not listed is unpriced."""
    prices_as_of: Moment | None = None
    """The date of these prices. It is shown in messages about decisions that depend on prices. If
    not set, the date is unknown."""
    rates: Mapping[CapacityType, CapacityRates] = Field(default={})
    """Your own prices by capacity type, in USD per hour. These prices take precedence over the
    prices of the catalog."""
    virtual_gpus: VirtualGpus | None = None
    ordering: OrderingPolicy = OrderingPolicy()
    fair_share: FairSharePolicy = FairSharePolicy()
    quotas: QuotaPolicy | None = None
    budgets: Sequence[BudgetPolicy] = ()
    calendar: CalendarPolicy = CalendarPolicy()
    run_times: RunTimePolicy = RunTimePolicy()
    scale: ScalePolicy = ScalePolicy()
    capacity: CapacityPolicy = CapacityPolicy()
    backfill: BackfillPolicy = BackfillPolicy()
    placement: PlacementPolicy = PlacementPolicy()
    preemption: PreemptionPolicy = PreemptionPolicy()
    checkpoints: CheckpointPolicy = CheckpointPolicy()
    limits: Limits = Limits()
    idle: IdlePolicy = IdlePolicy()
    hangs: HangPolicy = HangPolicy()
    memory: MemoryPolicy = MemoryPolicy()
    permissions: PermissionPolicy = PermissionPolicy()
    waiting: WaitingPolicy = WaitingPolicy()
    telemetry: TelemetryPolicy = TelemetryPolicy()
    retention: RetentionPolicy = RetentionPolicy()
    kubernetes: KubernetesPolicy = KubernetesPolicy()

    def price_micro_usd_per_gpu_hour(self, gpu_type: str, capacity_type: str) -> int | None:
        """The price of one GPU of this type for an hour; None: unpriced, which is never free."""
        for known, price in self.prices.get(gpu_type, {}).items():
            if known == capacity_type:
                return price
        return None

    def own_rates(self, capacity_type: str) -> CapacityRates | None:
        """The policy's own prices of this capacity type; None: there are none."""
        return next((own for known, own in self.rates.items() if known == capacity_type), None)

    @property
    def prices_day(self) -> str:
        """The day of the prices, in words."""
        day = self.prices_as_of
        return "prices of an unknown day" if day is None else f"prices of {day.date().isoformat()}"

    def max_gpus_per_user(self, team: str | None) -> int | None:
        """How many GPUs may a user of this team hold at once? None: any number."""
        of_team = None if self.quotas is None else self.quotas.max_gpus_per_user(team)
        return self.limits.max_gpus_per_user if of_team is None else of_team

    def priority_of_queue(self, queue_name: str) -> int | None:
        """How many points does a run of this queue have? None: the policy knows no such queue."""
        known = self.queue_with_points(queue_name)
        return None if known is None else self.priorities[known]

    def queue_with_points(self, queue_name: str) -> str | None:
        """The queue whose points a run of this queue has; None: the policy knows no such queue."""
        known = self.default_priority if queue_name == PREFECT_DEFAULT_QUEUE else queue_name
        return known if known in self.priorities else None


def parse_policy(
    data: object, source: str = "policy", lines: Mapping[str, int] | None = None
) -> Policy:
    """The policy that this data describes.

    Args:
        data: Plain Python data, as a YAML or JSON reader gives it.
        source: Where it comes from, for the errors: a file's path.
        lines: The line of each dotted field path in that file, for the errors.

    Raises:
        InvalidInput: One field cannot be used.
        InvalidInputs: Several cannot; the message has a line for each.
    """
    return validated(Policy, data, source, lines, _contradictions)


def _listed_teams(quotas: QuotaPolicy | None) -> Collection[str] | None:
    """The teams that can start runs at all; None: any."""
    return None if quotas is None or quotas.unlisted == "shared" else quotas.teams


def _unknown_default(policy: Policy) -> InvalidInput:
    named = policy.default_priority
    nearest = nearest_name(named, policy.priorities)
    remedy = f"add {named} to the priorities"
    if policy.priorities:
        remedy = "name one of them in default_priority"
    return InvalidInput(
        "default_priority",
        "is not one of the priorities",
        got=named,
        allowed=listed(policy.priorities),
        nearest=nearest,
        remedy=None if nearest else remedy,
    )


def _contradictions(policy: Policy, damaged: Collection[str]) -> list[InvalidInput]:
    """The contradictions of a policy, without those of damaged sections, which have defaults."""
    errors = [] if policy.quotas is None else quota_contradictions(policy.quotas)
    queues = None if "priorities" in damaged else {*policy.priorities, PREFECT_DEFAULT_QUEUE}
    errors += budget_contradictions(policy.budgets, queues, _listed_teams(policy.quotas))
    errors += calendar_contradictions(policy.calendar)
    errors += kubernetes_contradictions(policy.kubernetes)
    errors += scale_contradictions(policy.scale)
    errors += fair_share_contradictions(policy.fair_share)
    errors += limit_contradictions(policy.limits)
    errors += idle_contradictions(policy.idle)
    errors += memory_contradictions(policy.memory)
    errors += waiting_contradictions(policy.waiting)
    if not {"ordering", "preemption"} & set(damaged):
        errors += preemption_contradictions(policy.preemption, policy.ordering)
        errors += ordering_contradictions(policy.ordering, policy.preemption.grace_period_s)
    if "priorities" in damaged:
        return errors
    errors += permission_contradictions(policy.permissions, policy.priorities)
    if PREFECT_DEFAULT_QUEUE in policy.priorities:
        errors.append(
            InvalidInput(
                f"priorities.{PREFECT_DEFAULT_QUEUE}",
                "cannot have points of its own",
                remedy="name the queue whose points it gets in default_priority",
            )
        )
    if policy.default_priority not in policy.priorities:
        errors.append(_unknown_default(policy))
    return errors
