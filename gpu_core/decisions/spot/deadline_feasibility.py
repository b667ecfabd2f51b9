"""Can a run finish by its deadline within its budget, and how is it doing?"""

import math
from dataclasses import dataclass
from enum import StrEnum

from gpu_core.decisions.model.units import SECONDS_PER_HOUR, format_duration, format_usd
from gpu_core.decisions.policy.capacity import CapacityPolicy
from gpu_core.decisions.spot.state import Capacity, CapacityState, RemainingWork


class FeasibilityVerdict(StrEnum):
    """The verdict before a run starts. Public: names are added, never changed."""

    FEASIBLE = "Feasible"
    """On-demand alone finishes in time and within the budget."""
    NEEDS_SPOT = "NeedsSpot"
    """The budget holds only if part of the work runs on spot, which cannot be guaranteed."""
    OVER_BUDGET = "OverBudget"
    """Even uninterrupted spot costs more than the budget."""
    DEADLINE_TOO_EARLY = "DeadlineTooEarly"
    """Even on-demand from now on would finish after the deadline."""
    PRICES_UNKNOWN = "PricesUnknown"
    """The budget cannot be checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feasibility:
    """The least cost of a run, compared with its budget. Money is whole micro-USD."""

    verdict: FeasibilityVerdict
    cheapest_micro_usd: int | None
    """Without any interruption; None: unknown."""
    on_demand_micro_usd: int | None
    """On on-demand alone; None: unknown."""
    budget_micro_usd: int | None
    """None: it has none."""
    needed_spot_s: float | None = None
    """At least so much of the work must run on spot for the budget to hold; None: none must."""
    late_s: float | None = None
    """So much after the deadline it would end at the earliest; None: it would not."""

    @property
    def is_refusal(self) -> bool:
        """Should the run be refused when it is submitted?"""
        return self.verdict in (
            FeasibilityVerdict.OVER_BUDGET,
            FeasibilityVerdict.DEADLINE_TOO_EARLY,
        )

    @property
    def reason(self) -> str:
        """The verdict and its numbers as one sentence."""
        costs = (
            f"{format_usd(self.cheapest_micro_usd)} at least, "
            f"{format_usd(self.on_demand_micro_usd)} on on-demand"
        )
        if self.budget_micro_usd is not None:
            costs += f", budget {format_usd(self.budget_micro_usd)}"
        if self.late_s is not None:
            return f"{self.verdict}: {format_duration(self.late_s)} late at the earliest; {costs}"
        if self.needed_spot_s is not None:
            needed = format_duration(self.needed_spot_s)
            return f"{self.verdict}: at least {needed} of its work must run on spot; {costs}"
        return f"{self.verdict}: {costs}"


class BudgetStage(StrEnum):
    """The degree to which a run has used up its budget."""

    WITHIN = "within"
    WARNING = "warning"
    """Its owner should hear of it."""
    STOP = "stop"
    """It saves and stops, before the budget is overspent."""
    OVER = "over"
    """It is overspent, and the policy lets the run continue."""


def feasibility(state: CapacityState) -> Feasibility:
    """Can this workload finish by its deadline and within what is left of its budget?

    Args:
        state: As it is submitted or as it stands; `budget_left_micro_usd` is the budget.
    """
    on_demand_s = _needed_s(state, Capacity.ON_DEMAND)
    on_demand = _cost_micro_usd(state.on_demand_micro_usd_per_hour, on_demand_s)
    spot = _cost_micro_usd(state.spot_micro_usd_per_hour, _needed_s(state, Capacity.SPOT))
    # Spot is only for those who can still change to on-demand.
    can_use_spot = state.slack_s is None or state.slack_s >= 2 * state.changeover_s
    possible = [on_demand, spot] if can_use_spot else [on_demand]
    known = [cost for cost in possible if cost is not None]
    cheapest = min(known) if len(known) == len(possible) else None
    late_s = _late_s(state)
    budget = state.budget_left_micro_usd
    verdict = _verdict(budget, cheapest, on_demand, late_s)
    needed_spot_s = None
    if (
        verdict is FeasibilityVerdict.NEEDS_SPOT
        and budget is not None
        and cheapest is not None
        and on_demand
    ):
        # What is over the budget on on-demand must be saved, at the difference of the prices.
        needed_spot_s = on_demand_s * (on_demand - budget) / (on_demand - cheapest)
    return Feasibility(
        verdict=verdict,
        cheapest_micro_usd=cheapest,
        on_demand_micro_usd=on_demand,
        budget_micro_usd=budget,
        needed_spot_s=needed_spot_s,
        late_s=late_s or None,
    )


def needs_spot(state: CapacityState, policy: CapacityPolicy) -> RemainingWork | None:
    """Does the budget pay for the rest of the work on spot, but not on on-demand?

    The budget wins over the deadline where the policy stops runs that have spent it.

    Args:
        state: As it stands; `budget_left_micro_usd` is what is left of the budget.

    Returns:
        The numbers. None: on-demand is paid for, too, or not even spot is, or it is unknown.
    """
    left = state.budget_left_micro_usd
    if left is None or policy.at_budget == "continue":
        return None
    found = feasibility(state._replace(time_left_s=None))
    spot, on_demand = found.cheapest_micro_usd, found.on_demand_micro_usd
    if found.verdict is not FeasibilityVerdict.NEEDS_SPOT or spot is None or on_demand is None:
        return None
    return RemainingWork(left, spot, on_demand)


def budget_stage(
    spent_micro_usd: int, next_micro_usd: int, budget_micro_usd: int, policy: CapacityPolicy
) -> BudgetStage:
    """The stage of this run's spending: within its budget, warned, over it, or stopped.

    Args:
        next_micro_usd: What it costs until the next check.
        policy: The warning mark, and what happens at the end of the budget.
    """
    if spent_micro_usd + next_micro_usd > budget_micro_usd:
        return BudgetStage.STOP if policy.at_budget == "stop" else BudgetStage.OVER
    if spent_micro_usd >= policy.budget_warn_at * budget_micro_usd:
        return BudgetStage.WARNING
    return BudgetStage.WITHIN


def next_look_micro_usd(state: CapacityState, capacity: Capacity) -> int:
    """The cost of this capacity until the next decision.

    Unknown prices and waiting cost nothing.
    """
    prices = {
        Capacity.SPOT: state.spot_micro_usd_per_hour,
        Capacity.ON_DEMAND: state.on_demand_micro_usd_per_hour,
    }
    return _cost_micro_usd(prices.get(capacity), state.look_s) or 0


def _needed_s(state: CapacityState, capacity: Capacity) -> float:
    """How long would the rest of the work usually take there?"""
    usual_s = state.usual_remaining_work_s
    work_s = state.remaining_work_s if usual_s is None else usual_s
    return work_s + _start_s(state, capacity)


def _late_s(state: CapacityState) -> float:
    """How long after the deadline would on-demand end, if it took as long as it may? 0: in time."""
    if state.time_left_s is None:
        return 0.0
    needed_s = state.remaining_work_s + _start_s(state, Capacity.ON_DEMAND)
    return max(0.0, needed_s - state.time_left_s)


def _start_s(state: CapacityState, capacity: Capacity) -> float:
    return 0.0 if state.current is capacity else state.changeover_s


def _cost_micro_usd(micro_usd_per_hour: int | None, duration_s: float) -> int | None:
    if micro_usd_per_hour is None:
        return None
    return math.ceil(micro_usd_per_hour * duration_s / SECONDS_PER_HOUR)


def _verdict(
    budget: int | None, cheapest: int | None, on_demand: int | None, late_s: float
) -> FeasibilityVerdict:
    if late_s > 0:
        return FeasibilityVerdict.DEADLINE_TOO_EARLY
    if budget is None or (on_demand is not None and on_demand <= budget):
        return FeasibilityVerdict.FEASIBLE
    if cheapest is None or on_demand is None:
        return FeasibilityVerdict.PRICES_UNKNOWN
    return FeasibilityVerdict.OVER_BUDGET if cheapest > budget else FeasibilityVerdict.NEEDS_SPOT
