"""No deadline that can be met is missed: on any trace, under every strategy."""

from itertools import cycle, islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_core.decisions.policy.capacity import CapacityPolicy, StrategyName
from gpu_core.decisions.simulation.spot.replay import Replay, Task, replay, watched
from gpu_core.decisions.spot.decide import decide
from gpu_core.decisions.spot.state import Capacity, CapacityState, Rule
from gpu_core.decisions.spot.strategies import STRATEGIES
from gpu_core.decisions.spot.survival import SpotRecord
from tests.support.examples import examples

TICK_S = 600


def task(work_ticks: float, spare_ticks: float, changeover_s: float, ratio: float = 3.0) -> Task:
    """Its deadline is so many ticks after the earliest end on on-demand."""
    work_s = work_ticks * TICK_S
    least_ticks = -(-(work_s + changeover_s) // TICK_S)
    return Task(
        work_s=work_s,
        deadline_s=(least_ticks + spare_ticks) * TICK_S,
        changeover_s=changeover_s,
        spot_micro_usd_per_hour=1_000_000,
        on_demand_micro_usd_per_hour=round(ratio * 1_000_000),
    )


def run(
    strategy: StrategyName, one: Task, is_up: list[bool], *, keep_decisions: bool = False
) -> Replay:
    """This trace again and again until the deadline."""
    ticks = one.ticks(TICK_S)
    records = watched(list(islice(cycle(is_up), ticks)), TICK_S)
    return replay(
        records, TICK_S, one, CapacityPolicy(strategy=strategy), keep_decisions=keep_decisions
    )


TASKS = st.builds(
    task,
    work_ticks=st.one_of(st.integers(1, 60), st.floats(0.1, 60)),
    spare_ticks=st.integers(0, 40),
    changeover_s=st.one_of(st.sampled_from([0, 60, 180, 600, 720, 1200]), st.floats(0, 3000)),
    ratio=st.sampled_from([1.0, 1.001, 1.5, 3.0, 9.0]),
)
STRETCHES = st.lists(st.tuples(st.booleans(), st.integers(1, 12)), min_size=1, max_size=12)


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=examples(60))
@given(one=TASKS, stretches=STRETCHES)
def test_no_deadline_is_missed_on_random_traces(
    strategy: StrategyName, one: Task, stretches: list[tuple[bool, int]]
) -> None:
    """And all of the work is done, no more."""
    result = run(strategy, one, [is_up for is_up, ticks in stretches for _ in range(ticks)])
    assert not result.is_missed
    assert result.spot_s + result.on_demand_s == pytest.approx(one.work_s)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "is_up",
    [
        pytest.param([False], id="spot never comes"),
        pytest.param([True], id="spot is always there"),
        pytest.param([True, False], id="spot flaps every tick"),
        pytest.param([True, True, False], id="spot dies when its changeover is over"),
        pytest.param([True] * 3 + [False] * 60, id="spot comes rarely and goes soon"),
    ],
)
@settings(max_examples=examples(20))
@given(one=TASKS)
def test_no_deadline_is_missed_on_traces_made_to_hurt(
    strategy: StrategyName, is_up: list[bool], one: Task
) -> None:
    """Whatever slack there is."""
    assert not run(strategy, one, is_up).is_missed


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=examples(30))
@given(
    slack_in_changeovers=st.floats(1, 12),
    changeover_s=st.floats(1, 2000),
    looks=st.lists(st.tuples(st.floats(0.05, 1), st.booleans()), min_size=1, max_size=20),
)
def test_no_deadline_is_missed_when_spot_goes_between_looks(
    strategy: StrategyName, slack_in_changeovers: float, changeover_s: float, looks: list[Any]
) -> None:
    """Decisions at any moment, none later than the look that was promised."""
    work_s = left_s = 20_000.0
    deadline_s = work_s + slack_in_changeovers * changeover_s
    current, changeover_left_s, now_s, spot = Capacity.IDLE, 0.0, 0.0, SpotRecord(is_up=True)
    for part_of_look, is_up in cycle(looks):
        state = CapacityState(
            work_s=work_s,
            remaining_work_s=left_s,
            elapsed_s=now_s,
            time_left_s=deadline_s - now_s,
            changeover_s=changeover_s,
            look_s=300.0,
            current=current,
            spot=spot,
            spot_micro_usd_per_hour=1_000_000,
            on_demand_micro_usd_per_hour=3_000_000,
        )
        capacity = decide(state, CapacityPolicy(strategy=strategy)).capacity
        if capacity is not current:
            current, changeover_left_s = capacity, changeover_s
        duration_s = 300.0 * part_of_look
        if current is not Capacity.IDLE:
            lost_s = min(changeover_left_s, duration_s)
            changeover_left_s -= lost_s
            duration_s = min(duration_s, lost_s + left_s)
            left_s -= duration_s - lost_s
        now_s += duration_s
        if left_s <= 0:
            break
        spot = spot.looked(duration_s, is_up=is_up)
        if current is Capacity.SPOT and not is_up:
            current = Capacity.IDLE
    assert now_s <= deadline_s + 1e-3


def test_patience_is_hardly_dearer_than_on_demand_where_spot_dies_after_its_changeover() -> None:
    """Spot is a pure loss there: it may use up the slack on starts, and no more."""
    one = task(288, 72, 720)
    result = run("patience", one, [True, True, False])
    # Each start in vain costs 20 minutes of spot and saves 8 minutes of on-demand.
    assert result.cost_ratio < 1.05
    assert result.cost_ratio <= run("plain-uniform-progress", one, [True, True, False]).cost_ratio


@pytest.mark.parametrize("loose", [2, 5, 10])
@pytest.mark.parametrize("away_ticks", [1, 6])
def test_spot_that_goes_before_it_has_paid_is_left_alone_however_loose_the_deadline(
    loose: int, away_ticks: int
) -> None:
    """10 min of spot do no work with a changeover of 12; half of the slack went for them before."""
    work_ticks = 60
    one = task(work_ticks, (loose - 1) * work_ticks, 720)
    assert run("patience", one, [True] + [False] * away_ticks).cost_ratio < 1.06


def test_spot_that_lasts_is_used_however_little_work_is_left() -> None:
    """The last minutes save the start on on-demand, too."""
    result = run("patience", task(0.1, 60, 720), [True])
    assert result.spot_s == pytest.approx(60)


def test_with_equal_prices_there_is_no_spot() -> None:
    """On-demand from the first moment to the last."""
    one = task(100, 50, 720, ratio=1.0)
    result = run("patience", one, [True], keep_decisions=True)
    assert {decision.rule for decision in result.decisions} == {Rule.SPOT_NOT_CHEAPER}
    assert result.spot_s == 0


@settings(max_examples=examples(30))
@given(one=TASKS, stretches=STRETCHES)
def test_patience_keeps_spot_until_it_is_taken(
    one: Task, stretches: list[tuple[bool, int]]
) -> None:
    """A decision other than spot follows on spot only where the trace has none."""
    is_up = [is_up for is_up, ticks in stretches for _ in range(ticks)]
    result = run("patience", one, is_up, keep_decisions=True)
    pairs = zip(result.decisions, result.decisions[1:], strict=False)
    for tick, (before, after) in enumerate(pairs, 1):
        if before.capacity is Capacity.SPOT and after.capacity is not Capacity.SPOT:
            assert not is_up[tick % len(is_up)]
