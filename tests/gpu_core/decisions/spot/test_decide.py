"""Spot, on-demand or waiting: the rules one by one, with their numbers."""

from typing import Any

import pytest

from gpu_core.decisions.policy.capacity import CapacityPolicy, StrategyName
from gpu_core.decisions.spot.decide import decide
from gpu_core.decisions.spot.state import Capacity, CapacityState, Rule
from gpu_core.decisions.spot.strategies import (
    STRATEGIES,
    gap_patience_s,
    pays,
    proof_age_s,
    slack_price,
)
from gpu_core.decisions.spot.survival import Lifetimes, SpotRecord

HOUR_S = 3600.0


def up(age_s: float = 0.0) -> SpotRecord:
    """Spot is there, for so long."""
    return SpotRecord(is_up=True, age_s=age_s, observed_s=age_s)


def away(age_s: float = 0.0) -> SpotRecord:
    """Spot is gone, for so long."""
    return SpotRecord(is_up=False, age_s=age_s, observed_s=age_s)


START = CapacityState(
    work_s=48 * HOUR_S,
    remaining_work_s=48 * HOUR_S,
    elapsed_s=0.0,
    time_left_s=60 * HOUR_S,
    changeover_s=720.0,
    look_s=600.0,
    current=Capacity.IDLE,
    spot=up(),
    spot_micro_usd_per_hour=1_000_000,
    on_demand_micro_usd_per_hour=3_000_000,
)
"""48 hours of work, 60 hours of time."""
HALF = START._replace(elapsed_s=30 * HOUR_S, time_left_s=30 * HOUR_S, remaining_work_s=24 * HOUR_S)
"""On the line, 6 hours of slack."""


PAYS_FOR_SPOT = START._replace(budget_left_micro_usd=100_000_000)
"""48.2 h with a changeover: $48.20 on spot, $144.60 on on-demand."""


def state(base: CapacityState = START, **changes: Any) -> CapacityState:
    """A state like this one."""
    return base._replace(**changes)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("given", "want_capacity", "want_rule"),
    [
        pytest.param(
            state(remaining_work_s=0.0, current=Capacity.SPOT), Capacity.IDLE, Rule.DONE, id="done"
        ),
        pytest.param(
            state(budget_left_micro_usd=0), Capacity.IDLE, Rule.BUDGET_SPENT, id="budget spent"
        ),
        pytest.param(
            state(budget_left_micro_usd=166_666),
            Capacity.IDLE,
            Rule.BUDGET_SPENT,
            id="10 minutes of spot would overspend the budget",
        ),
        pytest.param(
            state(budget_left_micro_usd=166_667), Capacity.SPOT, Rule.TAKE_SPOT, id="they just fit"
        ),
        pytest.param(
            PAYS_FOR_SPOT,
            Capacity.SPOT,
            Rule.BUDGET_NEEDS_SPOT,
            id="the budget is sufficient for spot only",
        ),
        pytest.param(
            PAYS_FOR_SPOT._replace(spot=away()),
            Capacity.IDLE,
            Rule.BUDGET_NEEDS_SPOT,
            id="it waits for spot until it can pay for on-demand",
        ),
        pytest.param(
            PAYS_FOR_SPOT._replace(current=Capacity.ON_DEMAND),
            Capacity.SPOT,
            Rule.BUDGET_NEEDS_SPOT,
            id="on on-demand it changes at once",
        ),
        pytest.param(
            PAYS_FOR_SPOT._replace(spot=away(), time_left_s=48.1 * HOUR_S),
            Capacity.IDLE,
            Rule.BUDGET_NEEDS_SPOT,
            id="the budget comes before the deadline",
        ),
        pytest.param(
            PAYS_FOR_SPOT._replace(is_critical=True),
            Capacity.ON_DEMAND,
            Rule.CRITICAL,
            id="critical work is never on spot, whatever its budget",
        ),
        pytest.param(state(is_critical=True), Capacity.ON_DEMAND, Rule.CRITICAL, id="critical"),
        pytest.param(
            state(spot_micro_usd_per_hour=3_000_000),
            Capacity.ON_DEMAND,
            Rule.SPOT_NOT_CHEAPER,
            id="spot at on-demand's price is no spot",
        ),
        pytest.param(
            state(current=Capacity.SPOT, spot_micro_usd_per_hour=3_000_000),
            Capacity.SPOT,
            Rule.STAY_ON_SPOT,
            id="a spot instance whose price rose to on-demand's is kept: a change costs more",
        ),
        pytest.param(
            state(current=Capacity.SPOT, spot_micro_usd_per_hour=3_100_000),
            Capacity.ON_DEMAND,
            Rule.SPOT_NOT_CHEAPER,
            id="a spot instance that became dearer than the change is left",
        ),
        pytest.param(START, Capacity.SPOT, Rule.TAKE_SPOT, id="idle, and spot is up"),
        pytest.param(
            state(current=Capacity.SPOT, spot=away(), time_left_s=48.1 * HOUR_S),
            Capacity.SPOT,
            Rule.STAY_ON_SPOT,
            id="a live spot instance is kept, even when there is no other",
        ),
        pytest.param(
            state(time_left_s=48.39 * HOUR_S),
            Capacity.ON_DEMAND,
            Rule.SAFETY_NET,
            id="spot is up, but less than two changeovers of slack",
        ),
        pytest.param(
            state(time_left_s=48.41 * HOUR_S), Capacity.SPOT, Rule.TAKE_SPOT, id="just enough slack"
        ),
        pytest.param(
            state(time_left_s=48.41 * HOUR_S, spot=away(), look_s=1800.0),
            Capacity.ON_DEMAND,
            Rule.SAFETY_NET,
            id="a look would use up the slack",
        ),
        pytest.param(
            state(time_left_s=48.19 * HOUR_S), Capacity.ON_DEMAND, Rule.TOO_LATE, id="too late"
        ),
        pytest.param(
            state(time_left_s=-1.0), Capacity.ON_DEMAND, Rule.TOO_LATE, id="the deadline has passed"
        ),
        pytest.param(
            state(current=Capacity.ON_DEMAND, time_left_s=48.1 * HOUR_S),
            Capacity.ON_DEMAND,
            Rule.SAFETY_NET,
            id="on-demand with little slack is kept",
        ),
        pytest.param(
            state(current=Capacity.SPOT, has_notice=True, time_left_s=48.3 * HOUR_S),
            Capacity.ON_DEMAND,
            Rule.SAFETY_NET,
            id="a notice with little slack: on-demand at once",
        ),
        pytest.param(
            state(current=Capacity.ON_DEMAND, spot=away()),
            Capacity.ON_DEMAND,
            Rule.STAY_ON_DEMAND,
            id="on-demand is never left for idleness",
        ),
        pytest.param(
            state(time_left_s=None), Capacity.SPOT, Rule.TAKE_SPOT, id="no deadline, spot is up"
        ),
        pytest.param(
            state(time_left_s=None, spot=away(1e6)), Capacity.IDLE, None, id="no deadline: it waits"
        ),
    ],
)
def test_rules_of_every_strategy(
    strategy: StrategyName, given: CapacityState, want_capacity: Capacity, want_rule: Rule | None
) -> None:
    """Thrifty, exploitation, safety net, prices."""
    decision = decide(given, CapacityPolicy(strategy=strategy))
    assert decision.capacity is want_capacity
    assert want_rule is None or decision.rule is want_rule


@pytest.mark.parametrize(
    ("strategy", "given", "want_capacity", "want_rule"),
    [
        pytest.param("greedy", state(HALF, spot=away()), "idle", Rule.WAIT_FOR_SPOT, id="greedy"),
        pytest.param(
            "uniform-progress",
            state(HALF, spot=away(), remaining_work_s=24 * HOUR_S + 1),
            "on-demand",
            Rule.BEHIND,
            id="uniform progress behind the line",
        ),
        pytest.param(
            "uniform-progress",
            state(HALF, spot=away()),
            "idle",
            Rule.AHEAD,
            id="uniform progress on the line",
        ),
        pytest.param(
            "uniform-progress",
            state(HALF, current=Capacity.ON_DEMAND, remaining_work_s=23.69 * HOUR_S),
            "on-demand",
            Rule.BEHIND,
            id="uniform progress not yet two changeovers ahead: 0.4 h × 48 / 60 are 0.32 h",
        ),
        pytest.param(
            "uniform-progress",
            state(HALF, current=Capacity.ON_DEMAND, remaining_work_s=23.67 * HOUR_S),
            "spot",
            Rule.AHEAD,
            id="uniform progress two changeovers ahead",
        ),
        pytest.param(
            "plain-uniform-progress",
            state(HALF, current=Capacity.ON_DEMAND, remaining_work_s=25 * HOUR_S),
            "spot",
            Rule.TAKE_SPOT,
            id="plain uniform progress takes any spot",
        ),
        pytest.param(
            "plain-uniform-progress",
            state(HALF, spot=away(), remaining_work_s=25 * HOUR_S),
            "on-demand",
            Rule.BEHIND,
            id="plain uniform progress behind the line",
        ),
        pytest.param(
            "patience",
            state(HALF, spot=away()),
            "idle",
            Rule.WAIT_FOR_SPOT,
            id="patience at the beginning of a gap",
        ),
        pytest.param(
            "patience",
            state(HALF, spot=away(5 * HOUR_S)),
            "on-demand",
            Rule.OUT_OF_PATIENCE,
            id="patience in a long gap",
        ),
        pytest.param(
            "patience",
            state(HALF, current=Capacity.ON_DEMAND),
            "on-demand",
            Rule.SPOT_UNPROVEN,
            id="patience with young spot",
        ),
        pytest.param(
            "patience",
            state(HALF, current=Capacity.ON_DEMAND, spot=up(HOUR_S)),
            "spot",
            Rule.SPOT_PROVEN,
            id="patience with proven spot",
        ),
        pytest.param(
            "patience",
            state(HALF, current=Capacity.ON_DEMAND, spot=up(HOUR_S), remaining_work_s=300.0),
            "on-demand",
            Rule.STAY_ON_DEMAND,
            id="patience with too little work left for a change",
        ),
        pytest.param(
            "patience",
            state(HALF, current=Capacity.ON_DEMAND, spot_micro_usd_per_hour=None),
            "on-demand",
            Rule.BEHIND,
            id="patience without prices is uniform progress",
        ),
    ],
)
def test_strategies(
    strategy: StrategyName, given: CapacityState, want_capacity: str, want_rule: Rule
) -> None:
    """What each does where it is free."""
    decision = decide(given, CapacityPolicy(strategy=strategy))
    assert (decision.capacity, decision.rule) == (want_capacity, want_rule)


def test_a_budget_that_is_spent_does_not_stop_where_the_policy_says_so() -> None:
    """`at_budget: continue`."""
    decision = decide(state(budget_left_micro_usd=-5), CapacityPolicy(at_budget="continue"))
    assert decision.capacity is Capacity.SPOT


def test_a_budget_does_not_choose_where_the_policy_lets_it_be_overspent() -> None:
    """`at_budget: continue`: then the deadline wins."""
    late = PAYS_FOR_SPOT._replace(time_left_s=48.3 * HOUR_S)
    decision = decide(late, CapacityPolicy(at_budget="continue"))
    assert (decision.capacity, decision.rule) == (Capacity.ON_DEMAND, Rule.SAFETY_NET)


def test_critical_work_uses_spot_where_the_policy_allows_it() -> None:
    """`critical_on_demand: false`."""
    decision = decide(state(is_critical=True), CapacityPolicy(critical_on_demand=False))
    assert decision.capacity is Capacity.SPOT


def test_the_worked_example() -> None:
    """The numbers of DESIGN.md: half of the time gone, 6 hours of slack, prices 1 and 3.

    Reserve 4 × 12 min = 48 min; (360 - 48) min × 3.2 h / 30 h = 33.3 min of slack a cycle, less 6
    for changeovers: 27.3 min of waiting in the mean.
    """
    given = state(HALF, spot=away())
    gap_s = gap_patience_s(given)
    assert gap_s == pytest.approx(81.1 * 60, rel=0.01)
    price = slack_price(given, gap_s, 3.0)
    assert price == pytest.approx(0.394, rel=0.01)
    back = state(HALF, current=Capacity.ON_DEMAND)
    # 0.7 × 12 min × (1 + 3 + 2 × 0.39) / 2 = 20.1 min, less the 12 of the scale.
    assert proof_age_s(back, gap_patience_s(back), 3.0) == pytest.approx(8.1 * 60, rel=0.02)


@pytest.mark.parametrize(
    ("less", "more"),
    [
        pytest.param(HALF, state(HALF, remaining_work_s=20 * HOUR_S), id="more slack"),
        pytest.param(state(HALF, changeover_s=1440.0), HALF, id="a shorter changeover"),
    ],
)
def test_patience_with_a_gap_grows_with(less: CapacityState, more: CapacityState) -> None:
    """And the price of slack falls."""
    gaps_s = gap_patience_s(less), gap_patience_s(more)
    assert gaps_s[0] < gaps_s[1]
    assert slack_price(less, gaps_s[0], 3.0) > slack_price(more, gaps_s[1], 3.0)


@pytest.mark.parametrize(
    ("sooner", "later"),
    [
        pytest.param((HALF, 5.0), (HALF, 2.0), id="spot is less cheap"),
        pytest.param((HALF, 3.0), (state(HALF, changeover_s=1440.0), 3.0), id="a change is dearer"),
        pytest.param((HALF, 3.0), (state(HALF, remaining_work_s=27 * HOUR_S), 3.0), id="hurry"),
    ],
)
def test_spot_must_prove_itself_for_longer_when(
    sooner: tuple[CapacityState, float], later: tuple[CapacityState, float]
) -> None:
    """Each makes a change that was in vain worse, or what it gains less."""
    ages_s = [proof_age_s(given, gap_patience_s(given), ratio) for given, ratio in (sooner, later)]
    assert ages_s[0] < ages_s[1]


@pytest.mark.parametrize(
    ("lives_min", "age_min", "work_h", "want"),
    [
        pytest.param([], 0, 48, True, id="nothing seen: an ordinary stay pays"),
        pytest.param([10] * 4, 0, 48, True, id="four without effect are not enough"),
        pytest.param([10] * 6, 0, 48, False, id="six are"),
        pytest.param([10] * 19 + [300], 0, 48, True, id="one of five hours pays for all"),
        pytest.param([30] * 20, 0, 48, True, id="18 of 30 min are work at a third of the price"),
        pytest.param([30] * 20, 20, 48, False, id="after 20 of 30 min nothing is left to gain"),
        pytest.param([10] * 20, 10, 48, True, id="it has outlived all others"),
        pytest.param([15] * 20, 0, 0.05, True, id="the rest fits, and saves the other start"),
    ],
)
def test_spot_is_taken_if_stays_save_more_than_starts_cost(
    lives_min: list[int], age_min: int, work_h: float, want: bool
) -> None:
    """A changeover of 12 minutes, on-demand for three times the price."""
    lives = Lifetimes()
    for life_min in lives_min:
        lives = lives.ended(life_min * 60)
    spot = SpotRecord(is_up=True, age_s=age_min * 60, up=lives)
    one = state(spot=spot, remaining_work_s=work_h * HOUR_S)
    assert pays(one, 3.0) is want
    rule = Rule.TAKE_SPOT if want else Rule.SPOT_TOO_SHORT
    assert decide(one, CapacityPolicy()).rule is rule


def test_a_life_that_was_left_is_no_sign_of_a_short_one() -> None:
    """Runs of five minutes say little about how long their machines would have lived."""
    lives = Lifetimes()
    for _ in range(20):
        lives = lives.lasted(300)
    assert pays(state(spot=SpotRecord(is_up=True, up=lives)), 3.0)


def test_a_change_that_costs_nothing_needs_no_proof() -> None:
    """Changeover 0."""
    given = state(HALF, changeover_s=0.0, current=Capacity.ON_DEMAND)
    assert decide(given, CapacityPolicy()).rule is Rule.SPOT_PROVEN


def test_a_decision_explains_itself() -> None:
    """Rule and numbers in one sentence."""
    decision = decide(state(HALF, spot=away()), CapacityPolicy())
    assert decision.reason == (
        "idle: spot is currently unavailable; 0s of 1h 21m; slack 6h 00m; on-demand costs "
        "3.00 times spot"
    )
    late = decide(state(time_left_s=47 * HOUR_S, spot_micro_usd_per_hour=None), CapacityPolicy())
    assert late.reason == (
        "on-demand: the deadline can no longer be met; slack -1h 00m; prices unknown, using "
        "the deadline only"
    )
    paid = decide(PAYS_FOR_SPOT._replace(spot=away(), time_left_s=None), CapacityPolicy())
    assert paid.reason == (
        "idle: the budget is sufficient for spot only; $100.00 of the budget remains, with "
        "$48.20 required on spot and $144.60 on on-demand; on-demand costs 3.00 times spot"
    )
    behind = decide(
        state(HALF, spot=away(), remaining_work_s=25 * HOUR_S),
        CapacityPolicy(strategy="uniform-progress"),
    )
    assert "progress 23h 00m of 1d 00h expected by now" in behind.reason
