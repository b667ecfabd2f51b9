"""The request of the next attempt of a run, after the ends of its earlier ones."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple

from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.cluster import ON_DEMAND, SPOT
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Hold, Workload
from gpu_core.decisions.spot.capacity_view import CapacityView
from gpu_core.decisions.spot.decide import decide
from gpu_core.decisions.spot.node_avoidance import (
    avoided_until,
    spot_failures,
    spot_left_alone_until,
)
from gpu_core.decisions.spot.on_demand import can_expect_on_demand
from gpu_core.decisions.spot.retry_backoff import (
    is_past_excuses,
    is_postponed,
    is_refused_by_cluster,
    postponed_hold,
)
from gpu_core.decisions.spot.run_budget import budget_left_micro_usd, spent_hold
from gpu_core.decisions.spot.state import SENTENCES, Capacity, CapacityDecision, Rule
from gpu_core.decisions.spot.target_mix import choose_for_mix
from gpu_core.decisions.spot.waiting_for_spot import waiting_hold
from gpu_core.decisions.spot.zone_preference import PreferredZones


class _Choice(NamedTuple):
    capacity: Capacity
    reason: str
    hold: Hold | None = None
    """The reason why it waits for spot; None: it does not."""


class NextAttempts:
    """The requests of the next attempts of runs, at one moment.

    Ask for them in the order in which they are to get what there is: who is to have spot that is
    free takes it from those after it.
    """

    def __init__(self, view: CapacityView) -> None:
        self._view = view
        self._policy = view.policy.capacity
        self._zones = PreferredZones(view)
        self._spot_gpus, self._steady_gpus = _gpus_without_deadline(view)

    def of(self, workload: Workload, attempts: Sequence[Attempt]) -> Workload:
        """The workload with the nodes that it avoids, its capacity, and the zone that it prefers.

        Its capacity is chosen only where the run itself left it open and there are both kinds for
        it: a run is never kept waiting for capacity that does not exist.

        Args:
            workload: With its run time and what is left of it, as far as they are known.
            attempts: All attempts of the run so far, by number.
        """
        workload = _held_back(workload, postponed_hold(attempts, self._view.now))
        is_refused = bool(attempts) and is_refused_by_cluster(attempts[-1])
        if is_refused or is_past_excuses(attempts):
            workload = replace(workload, takes_free_only=True)
        # What never ran says nothing about places and capacity.
        attempts = [attempt for attempt in attempts if not is_postponed(attempt)]
        workload = self._with_past(workload, attempts)
        choice = self._choice(workload, attempts) if self._is_open(workload) else None
        if choice is not None and choice.hold is not None:
            return _held_back(workload, choice.hold)
        if choice is not None:
            chosen = SPOT if choice.capacity is Capacity.SPOT else ON_DEMAND
            shape = workload.shape._replace(capacity_type=chosen)
            workload = replace(workload, shape=shape, capacity_reason=choice.reason)
        if workload.hold is not None:
            return workload
        workload = self._zones.preferring(workload)
        if choice is not None:
            self._view.take(workload, chosen)
            self._zones.forget()
        return workload

    def _with_past(self, workload: Workload, attempts: Sequence[Attempt]) -> Workload:
        """With the nodes that it leaves alone, and held if its budget is spent."""
        view = self._view
        if attempts:
            avoided = avoided_until(
                attempts, view.nodes, self._policy, view.now, view.changeover(workload).loss_s
            )
            if avoided:
                workload = replace(
                    workload,
                    shape=workload.shape._replace(avoided_nodes=frozenset(avoided)),
                    avoided_until=min(avoided.values()),
                )
            grace_s = view.policy.preemption.grace_period_s
            hold = spent_hold(workload, attempts, self._policy, grace_s, view.now)
            workload = _held_back(workload, hold)
        return workload

    def _is_open(self, workload: Workload) -> bool:
        """Is there a choice of capacity for it?"""
        view = self._view
        if (
            workload.shape.capacity_type is not None
            or not workload.shape.gpu_count
            or not view.is_mixed
        ):
            return False
        return view.can_ever(workload, SPOT) and view.can_ever(workload, ON_DEMAND)

    def _choice(self, workload: Workload, attempts: Sequence[Attempt]) -> _Choice | None:
        """The choice of capacity; None if the run may use any."""
        decision = self._decision(workload, attempts)
        if decision is not None and decision.rule in (Rule.BUDGET_NEEDS_SPOT, Rule.ON_DEMAND_FULL):
            return _chosen(decision)
        changeover_s = self._view.changeover(workload).loss_s
        until = spot_left_alone_until(attempts, self._policy, self._view.now, changeover_s)
        if until is not None:
            failures = len(spot_failures(attempts, changeover_s))
            return _Choice(
                Capacity.ON_DEMAND,
                f"{ON_DEMAND}: spot is excluded until {until:%H:%M:%S} after {failures} "
                "consecutive early interruptions",
            )
        if self._policy.critical_on_demand and self._view.is_critical(workload):
            return _Choice(Capacity.ON_DEMAND, f"{ON_DEMAND}: {SENTENCES[Rule.CRITICAL]}")
        if workload.deadline_at is not None:
            if decision is None or decision.rule in (Rule.DONE, Rule.BUDGET_SPENT):
                return None
            return _chosen(decision)
        return self._for_mix(workload)

    def _decision(self, workload: Workload, attempts: Sequence[Attempt]) -> CapacityDecision | None:
        """The decision; None: it has neither deadline nor budget, or its duration is unknown."""
        left = budget_left_micro_usd(workload, attempts, self._view.now)
        if workload.deadline_at is None and left is None:
            return None
        state = self._view.state(workload, budget_left_micro_usd=left)
        if state is None:
            return None
        decision = decide(state, self._policy)
        if decision.capacity is not Capacity.ON_DEMAND:
            self._view.asks_for_no_on_demand(workload)
            return decision
        ended_at = attempts[-1].released_at if attempts else None
        waited_s = self._view.on_demand_wait_s(workload, ended_at)
        if not state.spot.is_up:
            return decision
        spare_s = (state.slack_s or 0.0) - state.changeover_s
        needed_by = self._view.now + timedelta(seconds=spare_s)
        if can_expect_on_demand(workload, self._view, waited_s, needed_by):
            return decision
        return decide(state._replace(can_have_on_demand=False), self._policy)

    def _for_mix(self, workload: Workload) -> _Choice | None:
        """Spot where it is free and cheaper, as far as the policy wants so much of it."""
        view = self._view
        spot_price, steady_price = view.prices(workload)
        if spot_price is None or steady_price is None or spot_price >= steady_price:
            return None
        target = self._policy.target_spot_share
        if target is None:
            if not view.fits(workload, SPOT):
                return None
            saving = 1 - spot_price / steady_price
            return _Choice(
                Capacity.SPOT, f"{SPOT}: available, saves {saving:.0%} and no deadline is set"
            )
        gpus = workload.shape.total_gpu_milli / WHOLE_GPU_MILLI
        mix = choose_for_mix(self._spot_gpus, self._steady_gpus, gpus, target)
        if workload.hold is not None or not view.fits(workload, mix.capacity_type):
            return None
        if mix.capacity_type == SPOT:
            self._spot_gpus += gpus
            return _Choice(Capacity.SPOT, mix.reason)
        self._steady_gpus += gpus
        return _Choice(Capacity.ON_DEMAND, mix.reason)


def _held_back(workload: Workload, hold: Hold | None) -> Workload:
    """With this hold, unless there is none or it has one already."""
    return workload if hold is None or workload.hold is not None else replace(workload, hold=hold)


def _chosen(decision: CapacityDecision) -> _Choice:
    hold = waiting_hold(decision) if decision.capacity is Capacity.IDLE else None
    return _Choice(decision.capacity, decision.reason, hold)


def _gpus_without_deadline(view: CapacityView) -> tuple[float, float]:
    """GPUs that workloads without a deadline hold on spot, and on on-demand."""
    spot = steady = 0.0
    for allocation in view.allocations:
        if allocation.workload.deadline_at is not None:
            continue
        gpus = allocation.workload.shape.total_gpu_milli / WHOLE_GPU_MILLI
        if allocation.placement.capacity_type == SPOT:
            spot += gpus
        elif allocation.placement.capacity_type == ON_DEMAND:
            steady += gpus
    return spot, steady
