"""A replay of the worker does what the worker's own cycle decides."""

from dataclasses import replace
from datetime import timedelta
from itertools import cycle, islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.cluster import ZONE_LABEL
from gpu_core.decisions.model.workload import RunTime, RunTimeSource
from gpu_core.decisions.policy.capacity import CapacityPolicy
from gpu_core.decisions.simulation.spot.replay import Knowledge, Replay, ReplayedRun, Task
from gpu_core.decisions.simulation.spot.worker_replay import minutes_up, replay_worker
from gpu_core.decisions.spot.availability_tracker import SpotAvailabilityTracker
from gpu_core.decisions.spot.capacity_view import CapacityView
from gpu_core.decisions.spot.migration import capacity_change
from gpu_core.decisions.spot.next_attempt import NextAttempts
from gpu_core.decisions.spot.observed_lifetimes import spot_pasts
from gpu_core.decisions.spot.state import Capacity, Rule
from gpu_core.testing.builders.attempts import make_attempt
from gpu_core.testing.builders.workloads import (
    NOW,
    make_allocation,
    make_node,
    make_policy,
    make_workload,
    with_shape,
)
from tests.support.examples import examples

SPOT_NODE = make_node("s", gpus=1, capacity_type="spot", labels={ZONE_LABEL: "a"})
NODES = (SPOT_NODE, make_node("o", gpus=1))
PRICES = {"a100-80gb": {"spot": 1.0, "on-demand": 3.0}}
MINUTE_S = 60


def task(work_h: float, deadline_h: float, changeover_min: float = 12) -> Task:
    return Task(
        work_s=work_h * 3600,
        deadline_s=deadline_h * 3600,
        changeover_s=changeover_min * MINUTE_S,
        spot_micro_usd_per_hour=1_000_000,
        on_demand_micro_usd_per_hour=3_000_000,
    )


def scheduled(is_up: list[bool], one: Task) -> Replay:
    """The same with the views and choices of a worker's cycle, each minute."""
    policy = make_policy(prices=PRICES)
    run = ReplayedRun(one, MINUTE_S, Knowledge(policy_s=one.changeover_s))
    availability = SpotAvailabilityTracker()
    attempts, admitted_at = [], NOW
    taken = make_allocation(make_workload("other"), {"s": "0"}, capacity_type="spot")
    for minute, up in enumerate(is_up):
        now = NOW + timedelta(minutes=minute)
        if run.capacity is Capacity.SPOT and not up:
            run.capacity = Capacity.IDLE
            attempts[-1] = replace(attempts[-1], released_at=now, end_reason=EndReason.INTERRUPTED)
        workload = make_workload(
            "run",
            submitted_at=NOW,
            deadline_at=NOW + timedelta(seconds=one.deadline_s),
            run_time=RunTime(median_s=one.work_s, upper_s=one.work_s, source=RunTimeSource.STATED),
            remaining_s=run.left_s,
            changeover=run.changeover,
        )
        others = [] if up else [taken]

        def view(*more, others=others, now=now):
            return CapacityView(
                NODES,
                policy,
                now,
                allocations=[*others, *more],
                pasts=spot_pasts([a for a in attempts if a.released_at is not None], now),
                availability=availability,
            )

        if run.capacity is not Capacity.IDLE:
            on_spot = run.capacity is Capacity.SPOT
            held = make_allocation(
                with_shape(workload, capacity_type=str(run.capacity)),
                {"s" if on_spot else "o": "0"},
                capacity_type=str(run.capacity),
                admitted_at=admitted_at,
                checkpointed_at=None if run.changeover_left_s > 0 else admitted_at,
            )
            if capacity_change(held, attempts, view(held)) is not None:
                run.capacity = Capacity.IDLE
        if run.capacity is Capacity.IDLE:
            asked = NextAttempts(view()).of(workload, attempts)
            if asked.hold is None:
                run.begin(Capacity(asked.shape.capacity_type))
                admitted_at = now
            if run.capacity is Capacity.SPOT:
                attempts.append(
                    make_attempt(
                        number=len(attempts) + 1,
                        node=f"s{len(attempts)}",
                        zone="a",
                        gpu_type="a100-80gb",
                        capacity_type="spot",
                        admitted_at=now,
                    )
                )
        run.go(run.capacity)
        if run.left_s <= 0:
            break
    return run.result(())


@pytest.mark.parametrize(
    ("away_first_min", "up_min", "away_min", "deadline_h"),
    [
        pytest.param(0, 300, 60, 8, id="long stays"),
        pytest.param(0, 40, 35, 8, id="stays that pay little"),
        pytest.param(0, 10, 20, 9, id="stays that do not pay: the limits of the worker"),
        pytest.param(0, 40, 35, 5.4, id="little slack"),
        pytest.param(0, 30, 400, 12, id="rarely"),
        pytest.param(98, 600, 1, 9, id="spot comes while on-demand starts: nothing is saved yet"),
    ],
)
def test_the_replay_and_the_workers_cycle_decide_alike(
    away_first_min: int, up_min: int, away_min: int, deadline_h: float
) -> None:
    """The same starts, hours and cost."""
    one = task(5, deadline_h)
    comes_and_goes = cycle([True] * up_min + [False] * away_min)
    is_up = [*[False] * away_first_min, *islice(comes_and_goes, round(deadline_h * 60))]
    want = scheduled(is_up, one)
    assert replay_worker(is_up, MINUTE_S, one, CapacityPolicy()) == want
    assert want.switches > 1


@settings(max_examples=examples(40))
@given(
    stretches=st.lists(st.tuples(st.booleans(), st.integers(1, 20)), min_size=1, max_size=12),
    slack_min=st.integers(0, 600),
    changeover_min=st.sampled_from([0.0, 1.0, 3.0, 12.0, 24.0]),
)
def test_no_deadline_is_missed(
    stretches: list[tuple[bool, int]], slack_min: int, changeover_min: float
) -> None:
    """Whatever the trace of ten-minute ticks."""
    least_h = 5 + changeover_min / 60
    one = task(5, least_h + slack_min / 60, changeover_min)
    is_up = [up for up, ticks in stretches for _ in range(ticks)]
    ticks = list(islice(cycle(is_up), one.ticks(MINUTE_S) // 10 + 1))
    result = replay_worker(ticks, 600, one, CapacityPolicy())
    assert not result.is_missed
    assert result.spot_s + result.on_demand_s == pytest.approx(one.work_s)


def test_after_three_interruptions_in_a_row_it_leaves_spot_alone() -> None:
    """10 min up, 20 away: the model of the papers tries again each time."""
    is_up = list(islice(cycle([True] * 10 + [False] * 20), 20 * 60))
    result = replay_worker(
        is_up, MINUTE_S, task(5, 20), CapacityPolicy(strategy="greedy"), keep_decisions=True
    )
    tried = sum(decision.rule is Rule.TAKE_SPOT for decision in result.decisions)
    assert tried == 3
    assert result.on_demand_s == 5 * 3600


@pytest.mark.parametrize(
    ("tick_s", "is_up", "want"),
    [
        pytest.param(120, [True, False], [True, True, False, False], id="two minutes a tick"),
        pytest.param(
            30, [True, True, True, False, True, True], [True, False, True], id="half a minute"
        ),
        pytest.param(60, [True], [True, False], id="after the last tick it is away"),
        pytest.param(90, [True, False], [True, False, False], id="a minute with the end of a tick"),
    ],
)
def test_a_minute_is_up_if_all_of_it_is(tick_s: int, is_up: list[bool], want: list[bool]) -> None:
    """Ticks need not be whole minutes."""
    assert list(minutes_up(is_up, tick_s, len(want))) == want
