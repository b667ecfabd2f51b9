"""The cost that a team or deployment without a history may have, by its budget or its peers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_high

from gpu_core.decisions.costs.anomalies.detection.rhythm import DAILY
from gpu_core.decisions.costs.reports.cost_history import CostHistory, Scope
from gpu_core.decisions.policy.budgets import BudgetPolicy, Period

FACTOR = 2
"""Unusual is more than twice that: the size of the spikes that are to be found elsewhere, too."""
_FEWEST_PEERS = 2
_DAYS: Mapping[Period, int] = {"day": 1, "week": 7, "month": 30}


@dataclass(frozen=True, slots=True, kw_only=True)
class DailyAllowance:
    """The allowance of a new part of the cost for one day."""

    micro_usd: int
    reference_micro_usd: int
    """A day's share of the budget, or the usual day of the dearest peer."""
    peers: int
    """How many peers there are; 0: the budget counts."""


def allowance_of_new(
    scope: Scope, history: CostHistory, budgets_micro_usd_per_day: Mapping[str, int]
) -> DailyAllowance | None:
    """The cost that this part may have in a day; None: it has neither a budget nor two peers.

    Args:
        scope: The part that has no history.
        history: Its peers are the other values of its dimension that cost anything in four weeks.
        budgets_micro_usd_per_day: What each team's budget allows in a day.
    """
    budget = budgets_micro_usd_per_day.get(scope.value or "") if scope.dimension == "team" else None
    if budget is not None:
        return DailyAllowance(micro_usd=FACTOR * budget, reference_micro_usd=budget, peers=0)
    if not scope.dimension:
        return None
    usual = [
        day
        for peer in history.scopes(scope.dimension)
        if peer != scope and (day := _usual_day(history.costs(peer)))
    ]
    if len(usual) < _FEWEST_PEERS:
        return None
    return DailyAllowance(
        micro_usd=FACTOR * max(usual), reference_micro_usd=max(usual), peers=len(usual)
    )


def team_budgets_micro_usd_per_day(budgets: Iterable[BudgetPolicy]) -> dict[str, int]:
    """The amount that each team's budget allows in a day: the smallest of several."""
    found: dict[str, int] = {}
    for budget in budgets:
        if budget.scope == "team" and budget.of is not None and budget.limit_micro_usd is not None:
            a_day = budget.limit_micro_usd // _DAYS[budget.period]
            found[budget.of] = min(a_day, found.get(budget.of, a_day))
    return found


def _usual_day(costs: Sequence[int]) -> int:
    """The median of its days with a cost before the last day; 0: there were none."""
    return median_high([c for c in costs[-1 - DAILY.level_memory : -1] if c > 0] or [0])
