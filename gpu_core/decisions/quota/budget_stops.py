"""The running runs that a used-up budget stops."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from math import ceil
from typing import NamedTuple

from gpu_core.decisions.costs.usage.usage import US_PER_S
from gpu_core.decisions.costs.usage.usage_cost import Held, usage_for
from gpu_core.decisions.model.attempts import Attempt, RunRecord
from gpu_core.decisions.model.cluster import PastUsage
from gpu_core.decisions.policy.budgets import BudgetPolicy, period_end
from gpu_core.decisions.quota.budgets import POLL_S, counts_in

Running = tuple[RunRecord, Attempt]


class BudgetStop(NamedTuple):
    """One attempt that must stop, and the budget that stops it."""

    attempt_id: str
    budget: BudgetPolicy
    used: int
    """In the budget's unit: micro-USD or GPU-seconds."""
    ends_at: datetime
    """The beginning of the next period."""

    @property
    def reason(self) -> str:
        """The numbers, and when it resumes, as one sentence."""
        budget = self.budget
        return (
            f"{budget.text(self.used)} of {budget.text(budget.limit)} of budget "
            f"{budget.name} has been used. The run resumes from its latest checkpoint once "
            f"the budget allows it. The next period starts at {self.ends_at:%Y-%m-%d %H:%M} "
            "UTC."
        )


def due_stops(
    budgets: Sequence[BudgetPolicy],
    usage: PastUsage,
    running: Iterable[Running],
    grace_s: float,
    now: datetime,
) -> list[BudgetStop]:
    """The attempts that must stop now, so that their budgets are not exceeded.

    A budget stops its runs as soon as what they all use until the next poll and during the grace
    period would exceed it. Runs of queues that it does not stop continue, and count.

    Args:
        budgets: Those of the policy.
        usage: What was used in the current period of each, with what runs.
        running: The runs that hold GPUs, each with its open attempt.
        grace_s: What a run that must stop may take to save.
        now: Aware.

    Returns:
        At most one for each attempt, of the first such budget.
    """
    held = list(running)
    found: dict[str, BudgetStop] = {}
    for budget in budgets:
        if not budget.stops_runs:
            continue
        by_name = usage.micro_usd_by_budget if budget.is_money else usage.gpu_s_by_budget
        used = by_name.get(budget.name, 0)
        members = [(run, attempt) for run, attempt in held if counts_in(budget, run)]
        ahead = sum(_ahead(budget, attempt, grace_s) for _, attempt in members)
        if used + ahead <= budget.limit:
            continue
        ends_at = period_end(budget.period, now, budget.time_zone)
        for run, attempt in members:
            if budget.mode_of(run.queue) == "stop":
                stop = BudgetStop(attempt.attempt_id, budget, used, ends_at)
                found.setdefault(attempt.attempt_id, stop)
    return list(found.values())


def _ahead(budget: BudgetPolicy, attempt: Attempt, grace_s: float) -> int:
    """The use of an attempt until the next poll and until it has saved, rounded up."""
    ahead_us = ceil(POLL_S + grace_s) * US_PER_S
    usage = usage_for(Held.by(attempt), ahead_us, attempt.price_changes[-1].rates)
    return ceil(usage.exact_micro_usd if budget.is_money else usage.gpu_us / US_PER_S)
