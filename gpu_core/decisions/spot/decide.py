"""Spot, on-demand or waiting: the one entry point, with the rules that hold for every strategy.

Under any strategy no deadline is missed that could be met: with `slack = time left - work
left`, on-demand started now finishes in time if slack is one changeover. A change to spot is
allowed with two, because it may be lost at once; waiting until the next look with one more than
that look. Slack never grows, so on-demand that runs with less than two is kept to the end.

That holds while on-demand is available. While it is not, spot that makes progress beats waiting.
"""

from gpu_core.decisions.policy.capacity import CapacityPolicy
from gpu_core.decisions.spot.deadline_feasibility import needs_spot, next_look_micro_usd
from gpu_core.decisions.spot.state import Capacity, CapacityDecision, CapacityState, Rule
from gpu_core.decisions.spot.strategies import STRATEGIES, StrategyAdvice, stay_work_s


def decide(state: CapacityState, policy: CapacityPolicy) -> CapacityDecision:
    """The capacity that this workload should use until the next decision, and the reason.

    To be asked again at every look, and at once when spot is taken away or announced to be, when
    it comes back, and when a price changes.

    Args:
        policy: The strategy, and what holds for critical work and budgets.
    """
    if state.has_notice and state.current is Capacity.SPOT:
        state = _as_if_taken(state)
    advice = (
        _whatever_the_deadline(state, policy)
        or _within_budget(state, policy)
        or _safety_net(state)
        or STRATEGIES[policy.strategy](state)
    )
    advice = _while_on_demand_is_full(state, advice) or advice
    if not _can_pay(state, advice.capacity, policy):
        advice = StrategyAdvice(Capacity.IDLE, Rule.BUDGET_SPENT)
    return CapacityDecision(
        capacity=advice.capacity,
        rule=advice.rule,
        slack_s=state.slack_s,
        progress_s=state.work_s - state.remaining_work_s,
        expected_progress_s=advice.expected_progress_s,
        spot_age_s=state.spot.age_s,
        patience_s=advice.patience_s,
        price_ratio=state.price_ratio,
        rest=advice.rest,
        changeover=state.changeover,
        stay_work_s=advice.stay_work_s,
    )


def _as_if_taken(state: CapacityState) -> CapacityState:
    """Spot that will be taken away counts as gone: its place in the market is not to be had."""
    gone = state.spot.looked(0.0, is_up=False)
    return state._replace(current=Capacity.IDLE, spot=gone, has_notice=False)


def _whatever_the_deadline(state: CapacityState, policy: CapacityPolicy) -> StrategyAdvice | None:
    if state.remaining_work_s <= 0:
        return StrategyAdvice(Capacity.IDLE, Rule.DONE)
    if state.is_critical and policy.critical_on_demand:
        return StrategyAdvice(Capacity.ON_DEMAND, Rule.CRITICAL)
    if _is_on_demand_cheaper(state):
        return StrategyAdvice(Capacity.ON_DEMAND, Rule.SPOT_NOT_CHEAPER)
    if state.current is Capacity.SPOT:
        return StrategyAdvice(Capacity.SPOT, Rule.STAY_ON_SPOT)
    return None


def _within_budget(state: CapacityState, policy: CapacityPolicy) -> StrategyAdvice | None:
    """Spot, or waiting for it, where the budget does not hold on on-demand."""
    rest = needs_spot(state, policy)
    if rest is None:
        return None
    capacity = Capacity.SPOT if state.spot.is_up else Capacity.IDLE
    return StrategyAdvice(capacity, Rule.BUDGET_NEEDS_SPOT, rest=rest)


def _while_on_demand_is_full(state: CapacityState, advice: StrategyAdvice) -> StrategyAdvice | None:
    """Spot instead of waiting for on-demand; None: the advice holds.

    Critical work waits, as the policy keeps it off spot. Spot that is not cheaper is taken only
    where more waiting could miss the deadline.
    """
    waits = advice.capacity is Capacity.ON_DEMAND and state.current is Capacity.IDLE
    if state.can_have_on_demand or not waits or not state.spot.is_up or state.slack_s is None:
        return None
    if advice.rule is Rule.CRITICAL:
        return None
    if advice.rule is Rule.SPOT_NOT_CHEAPER and _safety_net(state) is None:
        return None
    work_s = stay_work_s(state)
    if work_s <= 0:
        return None
    return StrategyAdvice(Capacity.SPOT, Rule.ON_DEMAND_FULL, stay_work_s=work_s)


def _can_pay(state: CapacityState, capacity: Capacity, policy: CapacityPolicy) -> bool:
    """Is enough of the budget left until the next look, so that it is never overspent?"""
    left = state.budget_left_micro_usd
    if left is None or policy.at_budget == "continue" or capacity is Capacity.IDLE:
        return True
    return left > 0 and next_look_micro_usd(state, capacity) <= left


def _is_on_demand_cheaper(state: CapacityState) -> bool:
    """Would the rest of the work cost less on on-demand, with the change to it?"""
    spot, on_demand = state.spot_micro_usd_per_hour, state.on_demand_micro_usd_per_hour
    if spot is None or on_demand is None:
        return False
    if state.current is not Capacity.SPOT:
        return spot >= on_demand
    work_s = state.remaining_work_s
    return spot * work_s > on_demand * (work_s + state.changeover_s)


def _safety_net(state: CapacityState) -> StrategyAdvice | None:
    slack_s, changeover_s = state.slack_s, state.changeover_s
    if slack_s is None:
        return None
    # Once on-demand runs, its changeover is under way or done.
    needed_s = 0.0 if state.current is Capacity.ON_DEMAND else changeover_s
    if slack_s < needed_s:
        return StrategyAdvice(Capacity.ON_DEMAND, Rule.TOO_LATE)
    is_waiting = state.current is Capacity.IDLE and not state.spot.is_up
    wanted_s = max(2 * changeover_s, state.look_s + changeover_s if is_waiting else 0.0)
    return StrategyAdvice(Capacity.ON_DEMAND, Rule.SAFETY_NET) if slack_s < wanted_s else None
