"""A budget that holds on spot only keeps its run from on-demand, and nothing else does."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.workload import RunTime, RunTimeSource
from gpu_core.decisions.policy.capacity import CapacityPolicy
from gpu_core.decisions.spot.capacity_view import CapacityView
from gpu_core.decisions.spot.decide import decide
from gpu_core.decisions.spot.next_attempt import NextAttempts
from gpu_core.decisions.spot.state import Capacity, CapacityState, Rule
from gpu_core.decisions.spot.strategies import STRATEGIES
from gpu_core.decisions.spot.survival import SpotRecord
from gpu_core.testing.builders.attempts import make_attempt
from gpu_core.testing.builders.workloads import (
    CRITICAL,
    NOW,
    ago,
    make_allocation,
    make_node,
    make_policy,
    make_workload,
)

USD = 1_000_000
H = 3600.0
SPOT, STEADY = make_node("s1", capacity_type="spot"), make_node("o1")
SPOT_USD, STEADY_USD, CHANGEOVER_H = 1.5, 3.6, 0.2
"""Of `make_policy` and of the policy's default."""


def rest_usd(hours: float, usd_per_hour: float, *, is_there: bool = False) -> float:
    """What the rest costs on capacity at this price, with its start."""
    return (hours + (0 if is_there else CHANGEOVER_H)) * usd_per_hour


STATES = st.builds(
    CapacityState,
    work_s=st.just(200 * H),
    remaining_work_s=st.floats(0.1, 100).map(lambda hours: hours * H),
    elapsed_s=st.floats(0, 1e6),
    time_left_s=st.none() | st.floats(-1e4, 1e6),
    changeover_s=st.just(CHANGEOVER_H * H),
    look_s=st.just(60.0),
    current=st.sampled_from(Capacity),
    spot=st.builds(SpotRecord, is_up=st.booleans(), age_s=st.floats(0, 1e5)),
    spot_micro_usd_per_hour=st.integers(USD // 10, 4 * USD),
    on_demand_micro_usd_per_hour=st.integers(USD // 10, 9 * USD),
    has_notice=st.booleans(),
    is_critical=st.just(False),
    usual_remaining_work_s=st.none(),
    budget_left_micro_usd=st.integers(-USD, 500 * USD),
)
POLICIES = st.builds(CapacityPolicy, strategy=st.sampled_from(list(STRATEGIES)))


@given(state=STATES, policy=POLICIES)
def test_on_demand_is_never_chosen_while_only_spot_is_paid_for(
    state: CapacityState, policy: CapacityPolicy
) -> None:
    """Whatever the deadline and the strategy say."""
    decision = decide(state, policy)
    if decision.capacity is not Capacity.ON_DEMAND:
        return
    # Spot that is taken away is no place where it is.
    current = None if state.has_notice and state.current is Capacity.SPOT else state.current
    hours, left_usd = state.remaining_work_s / H, (state.budget_left_micro_usd or 0) / USD
    spot_usd, on_demand_usd = (
        rest_usd(hours, (micro_usd or 0) / USD, is_there=current is capacity)
        for capacity, micro_usd in (
            (Capacity.SPOT, state.spot_micro_usd_per_hour),
            (Capacity.ON_DEMAND, state.on_demand_micro_usd_per_hour),
        )
    )
    # Costs are rounded up to whole micro-dollars.
    assert on_demand_usd <= left_usd or spot_usd > left_usd - 2e-6


@given(
    state=STATES,
    policy=POLICIES,
    unknown=st.sampled_from(["spot_micro_usd_per_hour", "on_demand_micro_usd_per_hour"]),
)
def test_without_both_prices_a_budget_changes_nothing(
    state: CapacityState, policy: CapacityPolicy, unknown: str
) -> None:
    """But that it must reach to the next look."""
    changes: dict[str, Any] = {unknown: None}
    decision = decide(state._replace(**changes), policy)
    without = decide(state._replace(**changes, budget_left_micro_usd=None), policy)
    assert decision.rule is Rule.BUDGET_SPENT or decision == without


def taking(hours, source=RunTimeSource.STATED):
    return RunTime(median_s=hours * H, upper_s=hours * H, source=source)


def asked(workload, attempts=(), *, is_spot_free=True, nodes=(SPOT, STEADY), **policy):
    """The workload as it asks for its next attempt. Who has spot has all of it."""
    holder = make_workload("holder", gpus=8)
    held = make_allocation(holder, {"s1": "0 1 2 3 4 5 6 7"}, capacity_type="spot")
    view = CapacityView(
        nodes, make_policy(**policy), NOW, allocations=[] if is_spot_free else [held]
    )
    return NextAttempts(view).of(workload, attempts)


def spot_attempts(number, hours=0.05):
    """Interrupted on spot, one a day, elsewhere; each cost its hours there."""
    return [
        make_attempt(
            number=n,
            node="x",
            capacity_type="spot",
            price_micro_usd_per_gpu_hour=round(SPOT_USD * USD),
            admitted_at=ago(24 * H * (number - n + 1) + hours * H),
            released_at=ago(24 * H * (number - n + 1)),
            end_reason=EndReason.INTERRUPTED,
        )
        for n in range(1, number + 1)
    ]


# With its changeover 10 h cost $15.30 on spot and $36.72 on on-demand.
@pytest.mark.parametrize(
    ("fields", "world", "want"),
    [
        pytest.param({"budget": 20}, {}, "spot", id="spot is free"),
        pytest.param({"budget": 20}, {"is_spot_free": False}, "waits", id="spot is taken"),
        pytest.param({"budget": 37}, {"is_spot_free": False}, None, id="on-demand is paid for"),
        pytest.param({"budget": 15.2}, {"is_spot_free": False}, None, id="not even spot is"),
        pytest.param({}, {"is_spot_free": False}, None, id="no budget"),
        pytest.param(
            {"budget": 20},
            {"is_spot_free": False, "capacity": {"at_budget": "continue"}},
            None,
            id="it may be overspent",
        ),
        pytest.param(
            {"budget": 20}, {"capacity": {"target_spot_share": 0.0}}, "spot", id="before the mix"
        ),
        pytest.param(
            {"budget": 20, "due_h": 10.3}, {"is_spot_free": False}, "waits", id="before a deadline"
        ),
        pytest.param(
            {"budget": 37, "due_h": 10.3}, {"is_spot_free": False}, "on-demand", id="both hold"
        ),
        pytest.param({"budget": 20}, {"attempts": 3}, "spot", id="before spot that keeps failing"),
        pytest.param(
            {"budget": 37}, {"attempts": 5, "is_spot_free": False}, "waits", id="what was spent"
        ),
        pytest.param(
            {"budget": 20, "remaining_s": 4 * H},
            {"attempts": 1, "is_spot_free": False},
            None,
            id="what is saved need not be paid again",
        ),
        pytest.param(
            {"budget": 20, "priority": CRITICAL}, {}, "on-demand", id="critical work stays off spot"
        ),
        pytest.param(
            {"budget": 20, "run_time": None}, {"is_spot_free": False}, None, id="an unknown length"
        ),
        pytest.param(
            {"budget": 20, "run_time": taking(10, RunTimeSource.LIMIT)},
            {"is_spot_free": False},
            None,
            id="a limit is no length",
        ),
        pytest.param(
            {"budget": 20},
            {"is_spot_free": False, "prices": {"a100-80gb": {"on-demand": 3.6}}},
            None,
            id="an unknown price",
        ),
        pytest.param(
            {"budget": 20, "capacity_type": "on-demand"}, {}, "on-demand", id="its owner's wish"
        ),
        pytest.param({"budget": 20}, {"nodes": (STEADY,)}, None, id="there is no spot at all"),
    ],
)
def test_what_a_run_with_a_budget_asks_for(fields, world, want):
    fields, world = dict(fields), dict(world)
    budget, due_h = fields.pop("budget", None), fields.pop("due_h", None)
    attempts = spot_attempts(world.pop("attempts", 0))
    workload = make_workload(
        budget_micro_usd=None if budget is None else round(budget * USD),
        deadline_at=None if due_h is None else NOW + timedelta(hours=due_h),
        **({"run_time": taking(10)} | fields),
    )
    found = asked(workload, attempts, **world)
    assert ("waits" if found.hold is not None else found.shape.capacity_type) == want


def test_who_waits_reads_why_and_what_would_help():
    workload = make_workload(budget_micro_usd=20 * USD, run_time=taking(10))
    hold = asked(workload, is_spot_free=False).hold
    assert hold.reason == Reason.WAITING_FOR_SPOT
    assert hold.summary.startswith(
        "Waiting for spot: $20.00 of the budget remains, with $15.30 required on spot and "
        "$36.72 on on-demand"
    )
    assert hold.resolution == (
        "The run starts once spot is available. To use on-demand capacity, increase the "
        "`budget_usd` job variable."
    )


def test_spot_that_is_left_alone_for_now_is_waited_for():
    """It was interrupted a minute ago, on the only spot that there is."""
    (attempt,) = spot_attempts(1)
    cut = make_attempt(
        node="s1",
        gpu_type="a100-80gb",
        capacity_type="spot",
        price_micro_usd_per_gpu_hour=attempt.price_micro_usd_per_gpu_hour,
        admitted_at=ago(0.05 * H + 60),
        released_at=ago(60),
        end_reason=EndReason.INTERRUPTED,
    )
    found = asked(make_workload(budget_micro_usd=20 * USD, run_time=taking(10)), [cut])
    assert (found.hold and found.hold.reason) == Reason.WAITING_FOR_SPOT


@given(
    hours=st.floats(0.5, 50),
    usual=st.floats(0.3, 1),
    budget_usd=st.floats(0.5, 300),
    due_h=st.none() | st.floats(-5, 100),
    interruptions=st.integers(0, 4),
    is_spot_free=st.booleans(),
    target=st.sampled_from([None, 0.0, 0.5, 1.0]),
)
def test_no_rule_puts_a_run_where_it_runs_out_of_money(
    hours, usual, budget_usd, due_h, interruptions, is_spot_free, target
):
    """On-demand is neither chosen nor left open while only spot is paid for."""
    run_time = RunTime(median_s=usual * hours * H, upper_s=hours * H, source=RunTimeSource.LEARNED)
    workload = make_workload(
        budget_micro_usd=round(budget_usd * USD),
        deadline_at=None if due_h is None else NOW + timedelta(hours=due_h),
        run_time=run_time,
    )
    found = asked(
        workload,
        spot_attempts(interruptions),
        is_spot_free=is_spot_free,
        capacity={"target_spot_share": target},
    )
    left_usd = budget_usd - interruptions * 0.05 * SPOT_USD
    is_on_spot_only = (
        rest_usd(usual * hours, STEADY_USD) > left_usd + 1e-5
        and rest_usd(usual * hours, SPOT_USD) < left_usd - 1e-5
    )
    if not is_on_spot_only:
        assert found.hold is None or "of the budget remains" not in found.hold.summary
    elif is_spot_free:
        assert (found.hold, found.shape.capacity_type) == (None, "spot")
    else:
        assert found.hold is not None
        assert "of the budget remains" in found.hold.summary
