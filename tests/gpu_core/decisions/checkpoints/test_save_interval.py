"""When a run saves: from stalls, persist times, the life of its capacity, and a notice."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.checkpoint_policy import CASES, measure
from gpu_core.decisions.checkpoints.save_interval import (
    IntervalRule,
    IntervalSettings,
    NoticeAction,
    SaveTime,
    SaveTimes,
    answer_notice,
    daly_interval_s,
    expected_loss_s,
    last_save_in_s,
    retry_pause_s,
    save_interval,
)
from gpu_core.decisions.model.capacity_life import CapacityLife
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.interruption_hazard import SPOT_PRIOR

FOUR_HOURS = CapacityLife.constant(4 * 3600)


def took(stall_s: float, persist_s: float | None = None) -> SaveTimes:
    return SaveTimes((SaveTime(stall_s, stall_s if persist_s is None else persist_s),))


@pytest.mark.parametrize(("stall_s", "want_s"), [(6, 412), (60, 1275), (150, 1980), (600, 3767)])
def test_the_published_optima(stall_s: float, want_s: float) -> None:
    """Daly's interval for a mean life of four hours."""
    assert daly_interval_s(stall_s, 4 * 3600) == pytest.approx(want_s, abs=1)


@given(st.floats(0.01, 5000), st.floats(100, 1e6))
def test_daly_is_near_the_exact_optimum(stall_s: float, mean_life_s: float) -> None:
    """Within 1% of the least expected time wherever a save is under a sixth of a life."""

    def time_per_work(interval_s: float) -> float:
        return mean_life_s * math.expm1((interval_s + stall_s) / mean_life_s) / interval_s

    if stall_s > mean_life_s / 6:
        return
    chosen_s = daly_interval_s(stall_s, mean_life_s)
    for factor in (0.7, 0.9, 1.1, 1.4):
        assert time_per_work(chosen_s) <= 1.01 * time_per_work(chosen_s * factor)


def test_a_save_longer_than_two_lives_is_hopeless() -> None:
    """The interval is then the life itself."""
    assert daly_interval_s(300, 100) == 100


@pytest.mark.parametrize(
    ("times", "life", "want_rule", "want_s"),
    [
        pytest.param(SaveTimes(), FOUR_HOURS, "Default", 600, id="nothing measured"),
        pytest.param(took(6), None, "Default", 600, id="on-demand with no known hazard"),
        pytest.param(took(6), FOUR_HOURS, "Optimum", 412, id="a save of six seconds"),
        pytest.param(took(0.001), FOUR_HOURS, "Shortest", 30, id="a save of a millisecond"),
        pytest.param(took(0.1, 200), FOUR_HOURS, "PersistTime", 199.9, id="a slow upload"),
        pytest.param(took(300), None, "Overhead", 1200, id="long stalls, no hazard"),
        pytest.param(
            took(300), CapacityLife.constant(1200), "Overhead", 1200, id="long stalls, short life"
        ),
        pytest.param(took(600), FOUR_HOURS, "Longest", 3600, id="over an hour"),
        pytest.param(took(1200), FOUR_HOURS, "Overhead", 4800, id="what stalls cost comes last"),
    ],
)
def test_which_rule_sets_the_interval(
    times: SaveTimes, life: CapacityLife | None, want_rule: str, want_s: float
) -> None:
    """The optimum, between what the run can bear and what may be at stake."""
    interval = save_interval(times, life)
    assert (interval.rule, interval.interval_s) == (
        IntervalRule(want_rule),
        pytest.approx(want_s, abs=1),
    )


def test_young_capacity_saves_more_often() -> None:
    """The hazard of spot capacity falls with its age."""
    at_ages = [save_interval(took(6), SPOT_PRIOR, age_s).interval_s for age_s in (0, 1200, 7200)]
    assert at_ages == sorted(at_ages)
    assert at_ages[0] == pytest.approx(150, abs=3)
    assert at_ages[-1] == pytest.approx(442, abs=3)


def test_reliable_notices_make_saves_rarer() -> None:
    """Only what comes unannounced loses an interval."""
    rare = save_interval(took(6), FOUR_HOURS, 0, IntervalSettings(unannounced_share=0.25))
    assert rare.interval_s == pytest.approx(daly_interval_s(6, 16 * 3600), abs=1)


@given(
    st.floats(0, 2000),
    st.floats(0, 2000),
    st.one_of(st.none(), st.floats(10, 1e6)),
    st.floats(0, 1e5),
)
def test_the_bounds_always_hold(
    stall_s: float, lag_s: float, mean_life_s: float | None, age_s: float
) -> None:
    """Never before the last save is safe, never over the overhead, whatever was measured."""
    life = None if mean_life_s is None else CapacityLife.constant(mean_life_s)
    interval = save_interval(took(stall_s, stall_s + lag_s), life, age_s)
    assert interval.overhead <= 0.2 + 1e-9
    assert interval.interval_s + stall_s >= stall_s + lag_s - 1e-6
    assert interval.interval_s <= max(3600, 4 * stall_s, lag_s) + 1e-6
    assert str(interval)


def test_the_usual_save_counts_not_the_first() -> None:
    """The first one also pays for its memory; five are remembered."""
    times = SaveTimes()
    for stall_s in (9, 1, 1, 2, 1):
        times = times.after(SaveTime(stall_s, 10 * stall_s))
    assert (times.stall_s, times.persist_s, times.longest_persist_s) == (1, 10, 90)
    assert times.after(SaveTime(1, 10)).longest_persist_s == 20


@pytest.mark.parametrize(
    ("grace_s", "times", "uploading_for_s", "want"),
    [
        pytest.param(30, SaveTimes(), None, "Save", id="nothing measured: try"),
        pytest.param(120, took(1, 50), None, "Save", id="it fits"),
        pytest.param(60, took(1, 50), None, "Save", id="it just fits, with its margin"),
        pytest.param(59, took(1, 50), None, "Nothing", id="it does not fit"),
        pytest.param(120, took(1, 50), 0.0, "Save", id="after the upload under way"),
        pytest.param(100, took(1, 50), 10.0, "Finish", id="only the upload under way"),
        pytest.param(100, took(1, 50), 20.0, "Save", id="the upload is nearly done"),
        pytest.param(45, took(1, 50), 10.0, "Nothing", id="not even the upload under way"),
        pytest.param(-5, took(1, 50), 10.0, "Save", id="alive after its end: clocks differ"),
    ],
)
def test_what_a_notice_asks_for(
    grace_s: float, times: SaveTimes, uploading_for_s: float | None, want: str
) -> None:
    """Save if that fits behind what is under way."""
    answer = answer_notice(grace_s, times, uploading_for_s)
    assert answer.action is NoticeAction(want)
    assert str(answer).startswith(want)


@pytest.mark.parametrize(
    ("grace_s", "times", "want_s"),
    [
        pytest.param(100, took(1, 10), 83, id="as late as it fits"),
        pytest.param(17, took(1, 10), 0, id="at once"),
        pytest.param(16, took(1, 10), None, id="too late"),
        pytest.param(100, SaveTimes(), None, id="nothing measured"),
    ],
)
def test_a_last_save_is_as_late_as_it_fits(
    grace_s: float, times: SaveTimes, want_s: float | None
) -> None:
    """1.2 saves and 5 s before the end."""
    assert last_save_in_s(grace_s, times) == want_s


@pytest.mark.parametrize(
    ("grace_s", "share", "want_s"),
    [
        pytest.param(None, 1.0, 206 + 20, id="no notices"),
        pytest.param(15, 0.0, 206 + 20, id="a notice that is too short"),
        pytest.param(120, 0.0, 20, id="a notice in time"),
        pytest.param(120, 0.25, 0.25 * 226 + 0.75 * 20, id="a notice mostly in time"),
    ],
)
def test_the_expected_loss(grace_s: float | None, share: float, want_s: float) -> None:
    """Half an interval and the time until the last save was safe; with a notice only the save."""
    interval = save_interval(took(6, 20), FOUR_HOURS)
    assert expected_loss_s(interval, grace_s, share) == pytest.approx(want_s, abs=1)


def test_an_unknown_loss_is_not_zero() -> None:
    """Before the first save it is unknown."""
    assert expected_loss_s(save_interval(SaveTimes(), FOUR_HOURS)) is None


def test_retries_back_off() -> None:
    """Never beyond the interval, whatever the number of failures."""
    pauses = [retry_pause_s(failures, 600) for failures in range(1, 9)]
    assert pauses == [15, 30, 60, 120, 240, 480, 600, 600]
    assert retry_pause_s(10**9, 600) == 600


@pytest.mark.parametrize(
    "setting",
    [
        {"default_s": 0},
        {"longest_s": -1},
        {"max_overhead": 0},
        {"max_overhead": 1},
        {"unannounced_share": 0},
        {"unannounced_share": 1.1},
    ],
)
def test_settings_out_of_range(setting: dict[str, float]) -> None:
    """The error names the setting."""
    with pytest.raises(InvalidInput, match=f"{next(iter(setting))} is out of range"):
        IntervalSettings(**setting)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_within_a_point_of_the_best_fixed_interval(case) -> None:
    """On lives that the policy has not seen; a notice of two minutes never makes it worse."""
    row = measure(case, lives=250, seed=7)
    assert row.policy >= row.best_fixed - 1
    assert row.learned >= row.best_fixed - 1
    assert row.with_notice >= row.policy
