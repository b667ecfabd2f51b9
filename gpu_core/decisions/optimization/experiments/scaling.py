"""Replicas over a day: as many at all hours, compared with as many as each hour needs.

The time of a request is measured; latencies and costs are computed from it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import SECONDS_PER_HOUR, digits
from gpu_core.decisions.optimization.experiments.comparison import winner_sentence
from gpu_core.decisions.optimization.experiments.low_priority import batch_s
from gpu_core.decisions.optimization.experiments.repeats import leaders, logarithms, pareto_front
from gpu_core.decisions.optimization.experiments.replicas import (
    hour_latencies,
    settled_after_s,
    weighted_p99_s,
)
from gpu_core.decisions.optimization.experiments.trial import Measured, usd_per_1k

HOURS = 24
USUAL_DAY = tuple(
    round(0.6 - 0.4 * math.cos(2 * math.pi * (hour - 4) / HOURS), 3) for hour in range(HOURS)
)
"""An invented day: 20% of the peak at 4 o'clock, all of it at 16 o'clock."""
_MOST_LOAD = 0.95
"""Of fixed replicas at the peak: beyond it an hour is too short for a steady queue."""
_MOST_REPLICAS, _MOST_REQUESTS = 64, 20_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DayDemand:
    """The requests of a day, and how replicas follow them."""

    peak_load: float = 2.8
    """Requests at the peak, in what one replica answers when it is never idle."""
    target_load: float = 0.7
    """Part of the time for which a replica is busy at most, where replicas follow the demand."""
    startup_s: float = 120.0
    """From the decision to start a replica to its first answer; it costs from the decision on."""
    day: tuple[float, ...] = USUAL_DAY
    """The demand of each hour, in parts of the peak."""
    sampled: int = 10_000
    """Requests of each hour that are simulated, about, besides those of a start."""

    def __post_init__(self) -> None:
        """Refuse what is no day."""
        if not 0.1 <= self.target_load <= _MOST_LOAD:
            raise _out_of_range("target_load", self.target_load, f"0.1 to {_MOST_LOAD}")
        most = _MOST_REPLICAS * self.target_load
        if not 0 < self.peak_load <= most:
            raise _out_of_range(
                "peak_load", self.peak_load, f"more than 0, to {most:g}: {_MOST_REPLICAS} replicas"
            )
        if not 0 <= self.startup_s <= SECONDS_PER_HOUR / 2:
            raise _out_of_range("startup_s", self.startup_s, "0 to 1800")
        if len(self.day) != HOURS or not all(0.001 <= part <= 1 for part in self.day):
            raise _out_of_range("day", list(self.day), "24 numbers from 0.001 to 1")
        for load, (before, after) in zip(self.loads, _changes(self.replicas), strict=True):
            settled_s = settled_after_s(load, before=before, after=after, startup_s=self.startup_s)
            if settled_s > SECONDS_PER_HOUR:
                raise InvalidInput(
                    "startup_s",
                    "is so long that the queue is not empty again within the hour",
                    got=self.startup_s,
                    remedy="use a shorter one, a lower target_load, or a day with smaller steps",
                )

    @property
    def loads(self) -> tuple[float, ...]:
        """The demand of each hour, in what one replica answers."""
        return tuple(self.peak_load * part for part in self.day)

    @property
    def replicas(self) -> tuple[int, ...]:
        """The number of replicas that each hour needs."""
        # A sum of floats that is a hair over a whole number needs no replica more.
        return tuple(max(1, math.ceil(load / self.target_load - 1e-9)) for load in self.loads)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPlan:
    """The number of replicas at each hour."""

    name: str
    replicas: tuple[int, ...]
    """Of each hour."""
    starts_ahead: bool = False
    """They start before their hour, so that they are ready when it begins."""

    def replica_hours(self, startup_s: float) -> float:
        """The paid replica hours of a day that is followed by one like it."""
        ahead_s = startup_s * sum(max(0, after - before) for before, after in self.changes)
        return sum(self.replicas) + (ahead_s / SECONDS_PER_HOUR if self.starts_ahead else 0.0)

    @property
    def changes(self) -> tuple[tuple[int, int], ...]:
        """The replicas of the hour before, and of each hour."""
        return _changes(self.replicas)


def _changes(replicas: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """The replicas of the hour before, and of each hour, of a day that follows one like it."""
    return tuple(zip((replicas[-1], *replicas), replicas, strict=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDay:
    """A plan, and what came of it in each repeat."""

    plan: ReplicaPlan
    replica_hours: float
    usd_per_1k: tuple[float, ...]
    p99_s: tuple[float, ...]
    """Of the hour in which it is highest: a day would hide the hour with a late start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingComparison:
    """All plans for one day, and what can be said of them."""

    measured: Measured
    demand: DayDemand
    days: tuple[PlannedDay, ...]
    too_few: tuple[int, ...]
    """Fixed replicas that do not answer the requests of the peak."""
    cheapest: tuple[str, ...]
    """All with the fewest replica-hours, for which alone their costs differ."""
    fastest: tuple[str, ...]
    """All that may have the lowest p99."""
    front: tuple[str, ...]
    """Those that no other one dominates in cost and p99."""

    @property
    def sentence(self) -> str:
        """The result, for people."""
        cheapest = winner_sentence("lowest cost", self.cheapest)
        if len(self.cheapest) > 1:
            hours = min(day.replica_hours for day in self.days)
            names = "; ".join(self.cheapest)
            cheapest = f"Lowest cost: {names}, with {digits(hours)} replica-hours each."
        return f"{cheapest} {winner_sentence('lowest p99', self.fastest)}"


def compare_plans(found: Measured, demand: DayDemand) -> ScalingComparison:
    """Does it save to have the replicas that each hour needs, and what becomes of the p99?

    The demand is in what a replica answers in each repeat, so that all repeats are as busy.

    Args:
        found: One request at a time, on one replica.

    Raises:
        InvalidInput: It was not measured, or the day has too many requests to simulate.
    """
    if not found.trials:
        raise InvalidInput("workload", "was not measured one by one", allowed="one in fp32")
    trial = found.trials[0]
    times_s = batch_s(trial)
    sizes = range(1, max(demand.replicas) + 1)
    too_few = tuple(n for n in sizes if max(demand.loads) > n * _MOST_LOAD)
    plans = _plans(demand, [n for n in sizes if n not in too_few])
    for plan in plans:
        _require_simulable(plan, demand, min(times_s))
    days = tuple(
        PlannedDay(
            plan=plan,
            replica_hours=(hours := plan.replica_hours(demand.startup_s)),
            usd_per_1k=tuple(
                usd_per_1k(trial.micro_usd_per_hour, sum(demand.loads) / hours / service_s)
                for service_s in times_s
            ),
            p99_s=tuple(
                _p99_s(plan, demand, service_s, number) for number, service_s in enumerate(times_s)
            ),
        )
        for plan in plans
    )
    # All plans share the repeats: what a request takes cancels out of the ratio of two costs.
    costs = {day.plan.name: logarithms([day.replica_hours] * len(times_s)) for day in days}
    waits = {day.plan.name: logarithms(day.p99_s) for day in days}
    return ScalingComparison(
        measured=found,
        demand=demand,
        days=days,
        too_few=too_few,
        cheapest=leaders(costs),
        fastest=leaders(waits),
        front=pareto_front({name: (costs[name], waits[name]) for name in costs}),
    )


def _plans(demand: DayDemand, fixed: Sequence[int]) -> tuple[ReplicaPlan, ...]:
    return (
        *(ReplicaPlan(name=f"{n} fixed", replicas=(n,) * HOURS) for n in fixed),
        ReplicaPlan(name="scaled at the hour", replicas=demand.replicas),
        ReplicaPlan(name="scaled ahead", replicas=demand.replicas, starts_ahead=True),
    )


def _p99_s(plan: ReplicaPlan, demand: DayDemand, service_s: float, repeat: int) -> float:
    changes = [(after if plan.starts_ahead else before, after) for before, after in plan.changes]
    hours = zip(demand.loads, changes, strict=True)
    return max(
        weighted_p99_s(
            hour_latencies(
                load,
                service_s,
                before=before,
                after=after,
                startup_s=demand.startup_s,
                sampled=demand.sampled,
                seed=(repeat, hour),
            )
        )
        for hour, (load, (before, after)) in enumerate(hours)
    )


def _require_simulable(plan: ReplicaPlan, demand: DayDemand, service_s: float) -> None:
    """Are there not too many requests until the queue of each start is gone?"""
    startup_s, total = demand.startup_s, 0.0
    for load, (before, after) in zip(demand.loads, plan.changes, strict=True):
        settled_s = settled_after_s(load, before=before, after=after, startup_s=startup_s)
        total += settled_s * load / service_s
    if total > _MOST_REQUESTS:
        raise InvalidInput(
            "startup_s",
            f"gives over {_MOST_REQUESTS:,} requests to simulate",
            got=startup_s,
            remedy="use a shorter one, or a lower peak_load",
        )


def _out_of_range(field: str, got: object, allowed: str) -> InvalidInput:
    return InvalidInput(field, "is out of range", got=got, allowed=allowed)
