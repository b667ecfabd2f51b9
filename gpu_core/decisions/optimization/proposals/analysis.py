"""The analysis of cost: the dearest deployments, and what was paid for nothing, by kind."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpu_core.decisions.costs.capacity.idle import CapacityCost
from gpu_core.decisions.costs.usage.usage_cost import lost_usage
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.optimization.proposals.run_facts import RunFact

IDLE_CAPACITY = "idle capacity"
IDLE_GPUS = "idle allocated GPUs"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentCost:
    """All runs of one deployment."""

    deployment: str
    team: str | None
    runs: int
    gpu_hours: float
    cost_micro_usd: int
    """Without runs that have no price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waste:
    """The cost of one kind of waste."""

    kind: str
    cost_micro_usd: int
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """The costs of a period by purpose."""

    cost_micro_usd: int
    unpriced_runs: int
    workloads: tuple[DeploymentCost, ...]
    """The dearest first."""
    waste: tuple[Waste, ...]
    """The dearest first; what nothing was lost by is left out. Kinds may overlap: a held GPU that
    did nothing may belong to an attempt whose work was lost."""


def analyze(facts: Sequence[RunFact], capacity: CapacityCost | None) -> Analysis:
    """The costs of these runs by workload, and the waste in them.

    Args:
        facts: The runs of the period.
        capacity: What machines cost in the period; None: not known.
    """
    waste = [*_lost(facts), *_idle_gpus(facts), *_idle_capacity(capacity)]
    return Analysis(
        cost_micro_usd=sum(fact.cost_micro_usd or 0 for fact in facts),
        unpriced_runs=sum(fact.cost_micro_usd is None for fact in facts),
        workloads=_workloads(facts),
        waste=tuple(sorted(waste, key=lambda w: (-w.cost_micro_usd, w.kind))),
    )


def _workloads(facts: Iterable[RunFact]) -> tuple[DeploymentCost, ...]:
    groups: dict[str, list[RunFact]] = defaultdict(list)
    for fact in facts:
        groups[fact.run.deployment or fact.run.flow_name].append(fact)
    found = [
        DeploymentCost(
            deployment=name,
            team=runs[-1].run.team,
            runs=len(runs),
            gpu_hours=sum(fact.held_gpu_h for fact in runs),
            cost_micro_usd=sum(fact.cost_micro_usd or 0 for fact in runs),
        )
        for name, runs in groups.items()
    ]
    return tuple(sorted(found, key=lambda w: (-w.cost_micro_usd, -w.gpu_hours, w.deployment)))


def _lost(facts: Iterable[RunFact]) -> list[Waste]:
    lost: dict[EndReason, list[int]] = defaultdict(list)
    for fact in facts:
        for attempt in fact.attempts:
            usage = lost_usage(attempt)
            if attempt.end_reason is not None and usage.micro_usd:
                lost[attempt.end_reason].append(usage.micro_usd)
    return [
        Waste(
            kind=f"work lost: {reason.value}",
            cost_micro_usd=sum(costs),
            note=f"{len(costs)} attempts with work that was not saved in a checkpoint",
        )
        for reason, costs in lost.items()
    ]


def _idle_gpus(facts: Iterable[RunFact]) -> list[Waste]:
    cost, attempts = 0.0, 0
    for fact in facts:
        busy = [
            summary.busy_ratio
            for attempt in fact.attempts
            for summary in attempt.gpu_summaries or ()
            if summary.busy_ratio is not None and not summary.is_simulated
        ]
        if busy and fact.cost_micro_usd is not None:
            cost += fact.cost_micro_usd * (1 - sum(busy) / len(busy))
            attempts += len(fact.attempts)
    if not round(cost):
        return []
    note = f"no kernels were running, according to samples from {attempts} attempts"
    return [Waste(kind=IDLE_GPUS, cost_micro_usd=round(cost), note=note)]


def _idle_capacity(capacity: CapacityCost | None) -> list[Waste]:
    idle = None if capacity is None else capacity.idle.micro_usd
    if not idle:
        return []
    note = "machines without running flow runs"
    return [Waste(kind=IDLE_CAPACITY, cost_micro_usd=idle, note=note)]
