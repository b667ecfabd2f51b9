"""The use of budgets in their current period, and its projection to the period's end."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from gpu_core.decisions.model.cluster import PastUsage
from gpu_core.decisions.model.markdown import cell, table
from gpu_core.decisions.policy.budgets import BudgetPolicy, period_end, period_start

_LEAST_PART_OF_PERIOD = 0.01
"""Less of a period than this says nothing about its end."""


class BudgetUse(NamedTuple):
    """One budget in its current period. Amounts in its unit: micro-USD or GPU-seconds."""

    policy: BudgetPolicy
    used: int
    forecast: int | None
    """The use at the end of the period if usage continues at its mean rate; None: the period has
    just started."""
    ends_at: datetime


def budget_use(budget: BudgetPolicy, usage: PastUsage, now: datetime) -> BudgetUse:
    """The use of this budget so far, and its forecast at the end of the period.

    Args:
        budget: One of the policy's.
        usage: What was used in the current period of each budget.
        now: Aware.
    """
    by_name = usage.micro_usd_by_budget if budget.is_money else usage.gpu_s_by_budget
    used = by_name.get(budget.name, 0)
    start = period_start(budget.period, now, budget.time_zone)
    end = period_end(budget.period, now, budget.time_zone)
    part = (now - start) / (end - start)
    forecast = None if part < _LEAST_PART_OF_PERIOD else round(used / part)
    return BudgetUse(budget, used, forecast, end)


def budgets_section(found: Sequence[BudgetUse]) -> list[str]:
    """The section of the nightly report: a row for each budget, the most used first."""
    if not found:
        return []
    ranked = sorted(found, key=lambda each: (-_part(each), each.policy.name))
    rows = [
        (
            cell(each.policy.name),
            each.policy.text(each.used),
            "unknown" if each.forecast is None else each.policy.text(each.forecast),
            each.policy.text(each.policy.limit),
            f"{each.ends_at:%Y-%m-%d}",
        )
        for each in ranked
    ]
    head = ("Budget", "Used", "At its end", "Limit", "Ends")
    return [f"## Budgets\n\n{table(head, rows)}"]


def _part(each: BudgetUse) -> float:
    limit = each.policy.limit
    return each.used / limit if limit else float(bool(each.used))
