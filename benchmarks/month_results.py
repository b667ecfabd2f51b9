"""The numbers of a replayed month, each with its target."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import asdict, dataclass

from gpu_core.decisions.model.cluster import SPOT, Node
from gpu_core.decisions.model.units import MICRO_USD_PER_USD, SECONDS_PER_HOUR
from gpu_core.decisions.simulation.cluster.nodes import NodeStay
from gpu_core.decisions.simulation.cluster.outcomes import JobOutcome, SimulatedAttempt, Simulation
from gpu_core.decisions.simulation.policies.metrics import Spread, metrics, spread, wait_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """One number and its target."""

    name: str
    value: float | None
    """None: there was nothing to measure."""
    target: float
    is_at_least: bool
    """False: it has to stay under the target."""

    @property
    def is_reached(self) -> bool | None:
        """Is it where it should be? None: there was nothing to measure."""
        if self.value is None:
            return None
        return self.value >= self.target if self.is_at_least else self.value < self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthResults:
    """What a month was like."""

    goals: tuple[Goal, ...]
    facts: dict[str, float | None]
    """What they were made of, and what they leave out; the unit is in each name."""

    def document(self) -> dict[str, object]:
        """For JSON."""
        goals = {
            goal.name: {
                "value": goal.value,
                "target": goal.target,
                "wanted": "at least" if goal.is_at_least else "under",
                "reached": goal.is_reached,
            }
            for goal in self.goals
        }
        return {"goals": goals, "facts": self.facts}


def month_results(
    simulation: Simulation,
    *,
    window_s: float,
    mean_gpus: float,
    cap_gpus: int,
    fixed_gpus: int,
    on_demand_micro_usd_per_gpu_hour: float,
    micro_usd_per_hour: Callable[[Node], int],
    within_cap: Collection[str],
    spot_up_share: float,
    cpu_s: float,
) -> MonthResults:
    """What was this month like?

    Args:
        simulation: The replay, to the end of all jobs.
        window_s: The month.
        mean_gpus: What the jobs ask for in the mean.
        cap_gpus: GPUs that there may be at once.
        fixed_gpus: GPUs of the fixed cluster.
        on_demand_micro_usd_per_gpu_hour: What fixed clusters pay.
        micro_usd_per_hour: What a node costs.
        within_cap: The jobs that came while no more than the cap was asked for.
        spot_up_share: The part of the month in which any spot is up.
        cpu_s: What the replay took.
    """
    outcomes = simulation.outcomes
    found = metrics(simulation, gpus=cap_gpus, horizon_s=window_s)
    stays = simulation.node_stays
    paid_gpu_h = _gpu_h(stays, window_s)
    spot_gpu_h = _gpu_h((s for s in stays if s.node.capacity_type == SPOT), window_s)
    cost_micro_usd = sum(
        micro_usd_per_hour(stay.node) * _within_s(stay, window_s) / SECONDS_PER_HOUR
        for stay in stays
    )
    cap_gpu_h = cap_gpus * window_s / SECONDS_PER_HOUR
    fixed_micro_usd = fixed_gpus * window_s / SECONDS_PER_HOUR * on_demand_micro_usd_per_gpu_hour
    fixed_at_cap_micro_usd = cap_gpu_h * on_demand_micro_usd_per_gpu_hour
    all_on_demand_micro_usd = paid_gpu_h * on_demand_micro_usd_per_gpu_hour
    kept_gpu_h = _times(found.utilization, cap_gpu_h)
    modest = [o for o in outcomes if o.job.job_id in within_cap]
    queue_wait_s = spread(_queue_waits_s(outcomes))
    time_to_gpu_s = spread(_times_to_gpu_s(outcomes))
    recovery_s = spread(_recoveries_s(outcomes))
    finished_wait_s = spread(wait_s(o) for o in outcomes if o.finished_s is not None)
    evictions = found.interruptions + found.preemptions
    recovered = sum(o.interruptions + o.preemptions for o in outcomes if o.finished_s is not None)
    goals = (
        _at_least("cost_saved_share", 1 - cost_micro_usd / fixed_micro_usd, 0.4),
        _at_least("spot_share", _share(spot_gpu_h, paid_gpu_h), 0.6),
        _at_least("utilization", _share(kept_gpu_h, paid_gpu_h), 0.8),
        _under("queue_wait_p95_s", _p95(queue_wait_s), 600.0),
        _under("time_to_gpu_p95_s", _p95(time_to_gpu_s), 300.0),
        _at_least("recovered_share", _share(recovered, evictions), 0.95),
        _under("failed_share", _share(found.jobs - found.finished, found.jobs), 0.02),
    )
    facts = {
        "jobs": found.jobs,
        "mean_gpus": mean_gpus,
        "cap_gpus": cap_gpus,
        "fixed_gpus": fixed_gpus,
        "cost_usd": cost_micro_usd / MICRO_USD_PER_USD,
        "all_on_demand_cost_usd": all_on_demand_micro_usd / MICRO_USD_PER_USD,
        "fixed_cost_usd": fixed_micro_usd / MICRO_USD_PER_USD,
        "fixed_at_cap_cost_usd": fixed_at_cap_micro_usd / MICRO_USD_PER_USD,
        **_savings(
            cost_micro_usd, all_on_demand_micro_usd, fixed_micro_usd, fixed_at_cap_micro_usd
        ),
        "paid_gpu_h": paid_gpu_h,
        "spot_gpu_h": spot_gpu_h,
        "held_gpu_h": _times(found.allocated, cap_gpu_h),
        "kept_work_gpu_h": kept_gpu_h,
        "spot_up_percent": 100 * spot_up_share,
        "node_stays": len(stays),
        "interruptions": found.interruptions,
        "preemptions": found.preemptions,
        "lost_gpu_h": found.lost_gpu_h,
        "checkpoint_gpu_h": found.checkpoint_gpu_h,
        "cycles": simulation.cycles,
        "cpu_s": cpu_s,
        **_spread_facts("queue_wait", queue_wait_s),
        **_spread_facts("time_to_gpu", time_to_gpu_s),
        "jobs_within_cap": len(modest),
        **_spread_facts("queue_wait_within_cap", spread(_queue_waits_s(modest))),
        **_spread_facts("time_to_gpu_within_cap", spread(_times_to_gpu_s(modest))),
        **_spread_facts("recovery", recovery_s),
        **_spread_facts("beyond_run_time", finished_wait_s),
    }
    return MonthResults(goals=goals, facts=facts)


def lines(results: MonthResults) -> Iterator[str]:
    """The table as people read it."""
    yield f"{'':20}{'measured':>14}{'target':>18}"
    for goal in results.goals:
        measured = "-" if goal.value is None else f"{goal.value:,.3f}"
        target = f"{'at least' if goal.is_at_least else 'under'} {goal.target:g}"
        yield f"{goal.name:20}{measured:>14}{target:>18}  {_VERDICT[goal.is_reached]}"
    for name, value in results.facts.items():
        yield f"    {name:30}{'-' if value is None else f'{value:,.1f}':>16}"


_VERDICT = {True: "reached", False: "missed", None: "nothing to measure"}


def _queue_waits_s(outcomes: Iterable[JobOutcome]) -> Iterator[float]:
    """From each submission until it was admitted."""
    return (o.attempts[0].start_s - o.job.submit_s for o in outcomes if o.attempts)


def _times_to_gpu_s(outcomes: Iterable[JobOutcome]) -> Iterator[float]:
    """From each submission until its GPUs were first there."""
    for outcome in outcomes:
        first = next((held for held in outcome.attempts if _had_gpus(held)), None)
        if first is not None:
            yield first.start_s + first.nodes_came_after_s - outcome.job.submit_s


def _recoveries_s(outcomes: Iterable[JobOutcome]) -> Iterator[float]:
    """From each interruption until GPUs were there again."""
    for outcome in outcomes:
        since_s = None
        for held in outcome.attempts:
            if since_s is not None and _had_gpus(held):
                yield held.start_s + held.nodes_came_after_s - since_s
                since_s = None
            if held.was_interrupted and since_s is None:
                since_s = held.end_s


def _had_gpus(held: SimulatedAttempt) -> bool:
    """Did its nodes come before it ended?"""
    return held.end_s == held.start_s or held.start_s + held.nodes_came_after_s < held.end_s


def _savings(
    cost: float, all_on_demand: float, fixed: float, fixed_at_cap: float
) -> dict[str, float]:
    """How much is saved in percent of each fixed cluster, by elasticity and by spot?

    Elasticity is what the same machines would save at the on-demand price, spot is the rest. A
    fixed cluster that is committed for a year costs less than this month where its discount is
    larger than what is saved: no price of a commitment in the catalog has a source.
    """
    return {
        "saved_percent": 100 * (1 - cost / fixed),
        "saved_by_elasticity_percent": 100 * (1 - all_on_demand / fixed),
        "saved_by_spot_percent": 100 * (all_on_demand - cost) / fixed,
        "saved_of_cap_percent": 100 * (1 - cost / fixed_at_cap),
        "saved_of_cap_by_elasticity_percent": 100 * (1 - all_on_demand / fixed_at_cap),
        "saved_of_cap_by_spot_percent": 100 * (all_on_demand - cost) / fixed_at_cap,
    }


def _gpu_h(stays: Iterable[NodeStay], window_s: float) -> float:
    gpu_s = sum(len(stay.node.gpu_ids) * _within_s(stay, window_s) for stay in stays)
    return gpu_s / SECONDS_PER_HOUR


def _within_s(stay: NodeStay, window_s: float) -> float:
    return max(0.0, min(stay.until_s, window_s) - stay.from_s)


def _spread_facts(name: str, values: Spread | None) -> dict[str, float | None]:
    if values is None:
        return {f"{name}_mean_s": None}
    return {f"{name}_{key}_s": value for key, value in asdict(values).items()}


def _at_least(name: str, value: float | None, target: float) -> Goal:
    return Goal(name=name, value=value, target=target, is_at_least=True)


def _under(name: str, value: float | None, target: float) -> Goal:
    return Goal(name=name, value=value, target=target, is_at_least=False)


def _p95(values: Spread | None) -> float | None:
    return None if values is None else values.p95


def _times(share: float | None, whole: float) -> float:
    return (share or 0.0) * whole


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
