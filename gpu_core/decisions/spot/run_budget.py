"""The budget of one run: whether it may start or continue, and how far it has come."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from math import ceil
from typing import NamedTuple

from gpu_core.decisions.costs.usage.usage import US_PER_S, sum_usage
from gpu_core.decisions.costs.usage.usage_cost import Held, usage_for, usage_until
from gpu_core.decisions.model.attempts import Attempt, EndReason
from gpu_core.decisions.model.cluster import ON_DEMAND, SPOT
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.units import format_duration, format_usd
from gpu_core.decisions.model.workload import Hold, RunTimeSource, Workload
from gpu_core.decisions.policy.capacity import CapacityPolicy
from gpu_core.decisions.spot.capacity_view import LOOK_S, CapacityView
from gpu_core.decisions.spot.deadline_feasibility import BudgetStage, budget_stage, feasibility
from gpu_core.decisions.spot.state import Capacity, CapacityState
from gpu_core.decisions.spot.survival import SpotRecord

_REMEDY = "You can increase the `budget_usd` job variable or reduce the amount of work"


class RunBudgetUse(NamedTuple):
    """The part of its budget that a run has spent, and the action. Money is whole micro-USD."""

    stage: BudgetStage
    spent_micro_usd: int
    next_micro_usd: int
    """Its cost until the next poll, and until it has saved and ended."""
    budget_micro_usd: int

    @property
    def reason(self) -> str:
        """The numbers as one sentence."""
        return (
            f"{format_usd(self.spent_micro_usd)} of the run budget of "
            f"{format_usd(self.budget_micro_usd)} has been spent, and "
            f"{format_usd(self.next_micro_usd)} would be added before the run can be stopped at "
            "the next poll"
        )


def spent_micro_usd(attempts: Iterable[Attempt], now: datetime) -> int:
    """The cost of these attempts until now. What has no price counts for nothing."""
    return sum_usage(usage_until(attempt, now) for attempt in attempts).micro_usd


def budget_left_micro_usd(
    workload: Workload, attempts: Iterable[Attempt], now: datetime
) -> int | None:
    """The rest of the run's budget; None: it has none. Negative: it is overspent."""
    budget = workload.budget_micro_usd
    return None if budget is None else budget - spent_micro_usd(attempts, now)


def run_budget_use(
    attempts: Iterable[Attempt],
    *,
    budget_micro_usd: int,
    grace_s: float,
    policy: CapacityPolicy,
    now: datetime,
) -> RunBudgetUse:
    """How far has a run come with its budget?

    Args:
        attempts: All of it, by number; the last one runs.
        grace_s: What an attempt that must stop may take to save.
        policy: The warning mark, and what happens at the end.
    """
    attempts = tuple(attempts)
    spent = spent_micro_usd(attempts, now)
    last = attempts[-1]
    ahead_us = int(LOOK_S + grace_s) * US_PER_S
    # Rounded up: a budget is never overspent by a micro-dollar.
    ahead = ceil(usage_for(Held.by(last), ahead_us, last.price_changes[-1].rates).exact_micro_usd)
    return RunBudgetUse(
        stage=budget_stage(spent, ahead, budget_micro_usd, policy),
        spent_micro_usd=spent,
        next_micro_usd=ahead,
        budget_micro_usd=budget_micro_usd,
    )


def why_unpayable(workload: Workload, view: CapacityView) -> str | None:
    """Why should a run be refused that has just been submitted? None: it should not.

    Its budget cannot hold even without any interruption, on the cheapest GPUs that it could use; or
    its deadline has passed. What has no price, or no known run time, and a run of a sweep are not
    refused for money.
    """
    due = workload.deadline_at
    if due is not None and due <= workload.submitted_at:
        return (
            f"The deadline {due:%Y-%m-%d %H:%M} UTC must be later than the submission of "
            "the run. Please set the `deadline` job variable to a later time or to a "
            "duration."
        )
    state = _undisturbed(workload, view)
    if state is None:
        return None
    found = feasibility(state)
    if not found.is_refusal:
        return None
    return (
        f"{found.reason}. The estimated duration of the work is "
        f"{format_duration(state.remaining_work_s)}. {_REMEDY}."
    )


def _undisturbed(workload: Workload, view: CapacityView) -> CapacityState | None:
    """The run as if nothing ever disturbed it: what it costs at least. None: unknown."""
    budget, estimate = workload.budget_micro_usd, workload.run_time
    if workload.group is not None:
        return None  # a sweep gives its runs the dollars of a part of their work, and then more
    if budget is None or estimate is None or estimate.source is RunTimeSource.LIMIT:
        return None
    prices = view.lowest_prices(workload)
    known = [price for price in prices.values() if price is not None]
    if not known or len(known) < len(prices):
        return None
    lowest = min(known)
    return CapacityState(
        work_s=estimate.median_s,
        remaining_work_s=estimate.median_s,
        elapsed_s=0.0,
        time_left_s=None,
        changeover_s=0.0,
        look_s=LOOK_S,
        current=Capacity.IDLE,
        spot=SpotRecord(is_up=SPOT in prices),
        spot_micro_usd_per_hour=prices.get(SPOT, lowest),
        on_demand_micro_usd_per_hour=prices.get(ON_DEMAND, lowest),
        budget_left_micro_usd=budget,
    )


def spent_hold(
    workload: Workload,
    attempts: Sequence[Attempt],
    policy: CapacityPolicy,
    grace_s: float,
    now: datetime,
) -> Hold | None:
    """The hold of a run whose budget is used up, if the policy stops it.

    A run that its budget has stopped had a little left: where it ran it would be stopped at once.
    """
    budget = workload.budget_micro_usd
    if budget is None or policy.at_budget == "continue":
        return None
    spent = spent_micro_usd(attempts, now)
    again = _stopped_again(attempts, budget, policy, grace_s, now)
    if spent < budget and again is None:
        return None
    why = (
        f"the attempts of this run have cost {format_usd(spent)}, and the budget is "
        f"{format_usd(budget)}"
    )
    if spent < budget and again is not None:
        # With the two sums alone a budget that was raised too little looks as if it were enough.
        why = again.reason
    return Hold(
        reason=Reason.BUDGET_EXCEEDED,
        summary=f"Held: {why}.",
        resolution=f"{_REMEDY}. The run resumes from the latest checkpoint.",
    )


def _stopped_again(
    attempts: Sequence[Attempt],
    budget_micro_usd: int,
    policy: CapacityPolicy,
    grace_s: float,
    now: datetime,
) -> RunBudgetUse | None:
    """The reason to stop a run again that its budget has stopped; None: there is none."""
    if not attempts or attempts[-1].end_reason is not EndReason.BUDGET_SPENT:
        return None
    used = run_budget_use(
        attempts, budget_micro_usd=budget_micro_usd, grace_s=grace_s, policy=policy, now=now
    )
    return used if used.stage is BudgetStage.STOP else None
