"""The runs that made a day expensive."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from gpu_core.decisions.costs.anomalies.detection.judgment import RootCause
from gpu_core.decisions.costs.reports.cost_history import DailyCosts
from gpu_core.decisions.costs.usage.usage_cost import RunCost
from gpu_core.decisions.model.attempts import RunRecord

EXPLAINED_PERCENT = 80
MOST_CAUSES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """The depth to which the cause of an excess is followed up."""

    explained_percent: int = EXPLAINED_PERCENT
    """Runs are named until they explain this much of the excess..."""
    most_causes: int = MOST_CAUSES
    """...but not more of them than this."""


def runs_behind(
    day: date,
    costs: DailyCosts,
    history: Sequence[date],
    excess_micro_usd: int,
    following: Following | None = None,
) -> tuple[RootCause, ...]:
    """The runs that cost more than their deployments usually spend in a day, the most first.

    Args:
        day: The dear day.
        costs: That day and its history.
        history: The days whose mean is usual, at least one.
        excess_micro_usd: What the day cost too much.
        following: None: until 80% are explained, at most five runs.
    """
    limits = following or Following()
    usual = _by_source([cost for past in history for cost in costs.get(past, ())])
    ranked = sorted(
        _excesses(costs.get(day, ()), {name: sum_ // len(history) for name, sum_ in usual.items()}),
        key=lambda cause: (-cause.excess_micro_usd, cause.run.flow_run_id),
    )
    named: list[RootCause] = []
    explained = 0
    for cause in ranked[: limits.most_causes]:
        enough = explained * 100 >= excess_micro_usd * limits.explained_percent
        if cause.excess_micro_usd <= 0 or enough:
            break
        named.append(cause)
        explained += cause.excess_micro_usd
    return tuple(named)


def _excesses(today: Sequence[RunCost], usual: Mapping[str, int]) -> list[RootCause]:
    """The cost of each run of the day above the typical daily cost of its deployment.

    A deployment's usual day is used up by its cheapest runs first. So a single dear run stands
    out among ordinary ones, and of a hundred ordinary ones where one is usual, all but one count.
    """
    left = dict(usual)
    causes = []
    for cost in sorted(today, key=lambda cost: (cost.usage.micro_usd, cost.run.flow_run_id)):
        spent, source = cost.usage.micro_usd, source_of(cost.run)
        covered = min(spent, left.get(source, 0))
        left[source] = left.get(source, 0) - covered
        causes.append(
            RootCause(run=cost.run, cost_micro_usd=spent, excess_micro_usd=spent - covered)
        )
    return causes


def _by_source(costs: Sequence[RunCost]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for cost in costs:
        source = source_of(cost.run)
        sums[source] = sums.get(source, 0) + cost.usage.micro_usd
    return sums


def source_of(run: RunRecord) -> str:
    """Its deployment, or its flow where it has none."""
    return run.deployment or run.flow_name
