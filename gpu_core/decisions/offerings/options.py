"""One way to run a job: an offering and a number of nodes, with its time, cost and risk."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from gpu_core.decisions.catalog.offerings import OfferingKey
from gpu_core.decisions.model.units import format_duration, format_usd
from gpu_core.decisions.offerings.constraints import Constraints, Goal
from gpu_core.decisions.requests.requirements.estimates.duration import Duration
from gpu_core.decisions.requests.requirements.estimates.fit import Fit


class RefusalReason(StrEnum):
    """The reason why an offering is refused. Public: add, never rename."""

    NOT_OFFERED = "NotOffered"
    NO_SPOT_CAPACITY = "NoSpotCapacity"
    UNKNOWN_GPU_TYPE = "UnknownGpuType"
    OTHER_GPU_TYPE = "OtherGpuType"
    OTHER_GPU_COUNT = "OtherGpuCount"
    PARTIAL_GPU = "PartialGpu"
    DOUBTFUL_PRICE = "DoubtfulPrice"
    UNKNOWN_PRICE = "UnknownPrice"
    NO_FAST_UNITS = "NoFastUnits"
    TOO_LITTLE_MEMORY = "TooLittleMemory"
    UNKNOWN_NETWORK = "UnknownNetwork"
    NEVER_ENDS = "NeverEnds"
    TOO_LATE = "TooLate"
    OVER_BUDGET = "OverBudget"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An offering that is out, and why."""

    key: OfferingKey
    reason: RefusalReason
    summary: str
    times_too_large: float | None = None
    """The number of times that the memory would have to grow; None: that is not the reason."""


class Certainty(StrEnum):
    """The certainty that the deadline and the budget hold."""

    SAFE = "safe"
    """Even at the slow end of the estimate; on spot, with time left to do all of it on demand."""
    LIKELY = "likely"
    """At the likely estimate."""
    NO = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of a run, in micro-USD."""

    compute_low: int
    compute: int
    compute_high: int
    storage: int | None
    """Of data and checkpoints while it runs. None: unknown, and not in the total."""
    transfer: int | None
    """Of data that lies elsewhere. None: unknown, and not in the total."""

    @property
    def total(self) -> int:
        """The likely total."""
        return self.compute + self._other_costs

    @property
    def total_low(self) -> int:
        """At the fast end of the estimate."""
        return self.compute_low + self._other_costs

    @property
    def total_high(self) -> int:
        """At the slow end of the estimate."""
        return self.compute_high + self._other_costs

    @property
    def _other_costs(self) -> int:
        return (self.storage or 0) + (self.transfer or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One way to run the job."""

    key: OfferingKey
    gpu_type: str
    nodes: int
    gpus: int
    """Over all nodes."""
    fit: Fit
    work: Duration
    """Without start-up, checkpoints and interruptions."""
    wall_low_s: float
    wall_s: float
    wall_high_s: float
    fallback_s: float
    """On spot: what all of it takes on demand at the slow end, should spot never come; else 0."""
    overhead: float
    """How many times as long as the work alone, by checkpoints and interruptions."""
    interruption_chance: float
    """At least one; 0 on demand."""
    cost: Cost
    priced_at: datetime
    """The moment at which its price was seen last."""
    is_price_age_known: bool
    """False: the price is of that day at the earliest."""
    price_source: str
    """The source of its price."""

    def certainty(self, constraints: Constraints, now: datetime) -> Certainty:
        """Do the deadline and the budget hold?"""
        if self.violation(constraints, now) is not None:
            return Certainty.NO
        budget = constraints.budget_micro_usd
        is_safe = self.wall_high_s + self.fallback_s <= _left_s(constraints, now) and (
            budget is None or self.cost.total_high <= budget
        )
        return Certainty.SAFE if is_safe else Certainty.LIKELY

    def violation(self, constraints: Constraints, now: datetime) -> Refusal | None:
        """The constraint that it breaks; None: none."""
        left_s = _left_s(constraints, now)
        if self.wall_s > left_s:
            return Refusal(
                key=self.key,
                reason=RefusalReason.TOO_LATE,
                summary=f"takes {format_duration(self.wall_s)} on {self.size}, but only "
                f"{format_duration(left_s)} remain until the deadline",
            )
        budget = constraints.budget_micro_usd
        if budget is not None and self.cost.total > budget:
            return Refusal(
                key=self.key,
                reason=RefusalReason.OVER_BUDGET,
                summary=f"costs {format_usd(self.cost.total)} on {self.size}, which exceeds the "
                f"budget of {format_usd(budget)}",
            )
        return None

    @property
    def size(self) -> str:
        """The size of the option, in words."""
        nodes = "" if self.nodes == 1 else f"{self.nodes} nodes with "
        return f"{nodes}{self.gpus} GPU{'s' if self.gpus > 1 else ''}"

    def ends_at(self, now: datetime) -> datetime:
        """The moment at which it is likely done, if it starts now."""
        return now + timedelta(seconds=self.wall_s)

    def rank(self, goal: Goal) -> tuple[float, float, str, int]:
        """Smaller is better; the same for any order of the catalog."""
        cost, time = float(self.cost.total), self.wall_s
        first, second = (cost, time) if goal is Goal.COST else (time, cost)
        return (first, second, str(self.key), self.nodes)


def _left_s(constraints: Constraints, now: datetime) -> float:
    if constraints.deadline_at is None:
        return math.inf
    return (constraints.deadline_at - now).total_seconds()
