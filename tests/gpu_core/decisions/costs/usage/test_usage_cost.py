"""Dollars add up: over windows, over groups, and never by taking an unknown price for zero."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.costs.usage.usage import NO_USAGE, Usage, sum_usage
from gpu_core.decisions.costs.usage.usage_cost import (
    Window,
    attempt_usage,
    daily_costs,
    group_by,
    price_book,
    run_cost,
    total,
    usage_until,
)
from gpu_core.decisions.model.attempts import Attempt, EndReason
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.testing.builders.attempts import NOON, at, make_attempt, make_run

HOUR_US = 3_600_000_000
CPU_PRICES = {
    "price_source": "sheet",
    "price_micro_usd_per_cpu_hour": 30_000,
    "price_micro_usd_per_gib_hour": 5_000,
}


def ended(number: int = 1, *, hours: float = 1, **fields: Any) -> Attempt:
    """An attempt that held its GPU for some hours from noon and completed."""
    ordinary: dict[str, Any] = {"released_at": at(hours), "end_reason": EndReason.COMPLETED}
    return make_attempt(number=number, **(ordinary | fields))


moments = st.timedeltas(timedelta(days=-4), timedelta(days=4)).map(lambda offset: NOON + offset)


@st.composite
def attempts(draw: st.DrawFn, run_id: str = "run-1", number: int = 1) -> Attempt:
    """Any attempt: open or over, priced or not, with or without GPUs and checkpoints."""
    admitted_at, other = draw(moments), draw(st.none() | moments)
    end = None if other is None else max(admitted_at, other)
    reason = None if end is None else draw(st.sampled_from(EndReason))
    if reason is EndReason.POSTPONED:
        end = admitted_at  # it is settled so
    return make_attempt(
        run_id,
        number,
        gpu_ids=tuple(f"GPU-{index}" for index in range(draw(st.integers(0, 16)))),
        price_micro_usd_per_gpu_hour=draw(st.none() | st.integers(0, 100_000_000)),
        admitted_at=admitted_at,
        released_at=end,
        gone_at=draw(st.none() | moments) if end is None else None,
        end_reason=reason,
        checkpoint=draw(st.none() | st.sampled_from(["c1", "c2"])),
        checkpointed_at=draw(st.none() | moments),
        restored_from=draw(st.none() | st.sampled_from(["c1", "c2"])),
    )


@st.composite
def partitions(draw: st.DrawFn) -> list[Window]:
    """Windows that follow each other and cover all that the attempts above can reach."""
    cuts = sorted(draw(st.lists(moments, max_size=8)))
    edges = [datetime(2026, 2, 1, tzinfo=UTC), *cuts, datetime(2026, 4, 1, tzinfo=UTC)]
    return [Window(start, end) for start, end in pairwise(edges)]


@given(attempt=attempts(), windows=partitions(), now=moments)
def test_windows_add_up_to_the_attempt(
    attempt: Attempt, windows: list[Window], now: datetime
) -> None:
    parts = [attempt_usage(attempt, now, window) for window in windows]
    assert sum_usage(parts) == attempt_usage(attempt, now)
    assert all(part.micro_usd >= 0 and part.gpu_us >= 0 for part in parts)


@given(first=attempts(), second=attempts(number=2), windows=partitions(), now=moments)
def test_windows_add_up_to_the_run_lost_and_saved_work_included(
    first: Attempt, second: Attempt, windows: list[Window], now: datetime
) -> None:
    pair = (first, second)
    whole = run_cost(make_run(), pair, now)
    parts = [run_cost(make_run(), pair, now, window) for window in windows]
    assert sum_usage(part.usage for part in parts) == whole.usage
    assert sum_usage(part.lost for part in parts) == whole.lost
    assert sum_usage(part.saved for part in parts) == whole.saved


@given(attempt=attempts(), now=moments)
def test_what_is_lost_and_saved_is_never_more_than_what_was_used(
    attempt: Attempt, now: datetime
) -> None:
    successor = make_attempt(number=2, restored_from=attempt.checkpoint, admitted_at=now)
    cost = run_cost(make_run(), (attempt, successor), datetime(2026, 4, 1, tzinfo=UTC))
    of_attempt = attempt_usage(attempt, datetime(2026, 4, 1, tzinfo=UTC))
    assert (cost.lost + cost.saved).gpu_us <= of_attempt.gpu_us
    assert (cost.lost + cost.saved).micro_usd <= of_attempt.micro_usd


@given(attempt=attempts(), now=moments)
def test_an_unknown_price_is_never_zero(attempt: Attempt, now: datetime) -> None:
    usage = attempt_usage(attempt, now)
    if not attempt.gpu_ids:
        assert (usage.total_micro_usd is None) == (usage.unpriced_us > 0)
    elif attempt.price_micro_usd_per_gpu_hour is None and usage.gpu_us:
        assert usage.total_micro_usd is None
        assert usage.unpriced_gpu_us == usage.gpu_us
    else:
        assert usage.total_micro_usd == usage.micro_usd
        assert usage.unpriced_gpu_us == 0


@given(of_runs=st.lists(st.tuples(attempts(), st.sampled_from(["a", "b", None]))), now=moments)
def test_groups_add_up_to_the_whole(
    of_runs: list[tuple[Attempt, str | None]], now: datetime
) -> None:
    costs = [
        run_cost(make_run(f"run-{index}", team=team), (attempt,), now)
        for index, (attempt, team) in enumerate(of_runs)
    ]
    groups = group_by(costs, lambda run: run.team).values()
    assert sum_usage(group.usage for group in groups) == total(costs).usage
    assert sum_usage(group.lost for group in groups) == total(costs).lost
    assert sum(group.runs for group in groups) == len(costs)


@given(of_runs=st.lists(attempts(), max_size=4), now=moments)
def test_days_add_up_to_the_whole(of_runs: list[Attempt], now: datetime) -> None:
    usage = [(make_run(f"run-{index}"), (attempt,)) for index, attempt in enumerate(of_runs)]
    all_days = Window(datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC))
    days = daily_costs(usage, all_days, now)
    by_day = sum_usage(cost.usage for on_day in days.values() for cost in on_day)
    assert by_day == sum_usage(attempt_usage(attempt, now) for attempt in of_runs)


@pytest.mark.parametrize(
    ("attempt", "want_micro_usd", "want_gpu_hours"),
    [
        pytest.param(ended(), 1_000_000, 1.0, id="one GPU for an hour"),
        pytest.param(ended(gpu_ids=tuple("abcd"), hours=0.5), 2_000_000, 2.0, id="four, half"),
        pytest.param(ended(gpu_ids=()), None, 0.0, id="no GPU, and no price of CPU and memory"),
        pytest.param(
            ended(gpu_ids=(), cpu_milli=4000, memory_mib=8192, **CPU_PRICES), 160_000, 0.0,
            id="no GPU: four cores and 8 GiB",
        ),
        pytest.param(
            ended(cpu_milli=4000, memory_mib=8192, **CPU_PRICES), 1_160_000, 1.0,
            id="a GPU, four cores and 8 GiB, each with its price",
        ),
        pytest.param(
            ended(cpu_milli=4000, memory_mib=8192), 1_000_000, 1.0,
            id="a price of GPUs alone includes the machine",
        ),
        pytest.param(
            ended(gpu_ids=(), cpu_milli=4000, **CPU_PRICES), None, 0.0,
            id="no GPU, and of its memory nothing is known",
        ),
        pytest.param(ended(price_micro_usd_per_gpu_hour=None), None, 1.0, id="no price"),
        pytest.param(ended(price_micro_usd_per_gpu_hour=0), 0, 1.0, id="a price of zero is free"),
        pytest.param(make_attempt(), 2_000_000, 2.0, id="still running: up to now"),
        pytest.param(
            make_attempt(gone_at=at(1.5)), 1_500_000, 1.5, id="its GPUs are free, its end is open"
        ),
        pytest.param(make_attempt(admitted_at=at(3)), 0, 0.0, id="admitted after now: nothing"),
    ],
)  # fmt: skip
def test_an_attempt_costs_its_gpus_times_its_hours_times_its_price(
    attempt: Attempt, want_micro_usd: int | None, want_gpu_hours: float
) -> None:
    usage = attempt_usage(attempt, now=at(2))
    assert usage.total_micro_usd == want_micro_usd
    assert usage.gpu_hours == want_gpu_hours


@pytest.mark.parametrize(
    "attempt",
    [
        pytest.param(ended(cpu_milli=1000, memory_mib=1024, **CPU_PRICES), id="with a GPU"),
        pytest.param(
            ended(gpu_ids=(), cpu_milli=1000, memory_mib=1024, **CPU_PRICES), id="without"
        ),
    ],
)
def test_money_of_resources_adds_up_to_the_cost(attempt: Attempt) -> None:
    usage = usage_until(attempt, at(1))
    assert (usage.cpu_micro_usd, usage.gib_micro_usd) == (30_000, 5_000)
    assert usage.exact_micro_usd == usage.gpu_micro_usd + 35_000


def test_a_fraction_of_a_micro_dollar_is_rounded_half_up() -> None:
    """At 1 micro-USD an hour, half an hour is half a micro-USD."""
    attempt = ended(price_micro_usd_per_gpu_hour=1)
    assert usage_until(attempt, at(0.5)).micro_usd == 1
    assert usage_until(attempt, at(0.5) - timedelta(microseconds=1)).micro_usd == 0


def test_a_clock_change_costs_no_hour_more_or_less() -> None:
    """In New York the hour from 01:00 comes twice on 2026-11-01: Python subtracts the clocks."""
    zone = ZoneInfo("America/New_York")
    began = datetime(2026, 11, 1, 0, 30, tzinfo=zone)
    end = datetime(2026, 11, 1, 1, 30, fold=1, tzinfo=zone)
    attempt = make_attempt(admitted_at=began, price_micro_usd_per_gpu_hour=1_000_000)
    assert usage_until(attempt, end).gpu_hours == 2.0
    assert usage_until(replace(attempt, released_at=end), at(10**5)).gpu_hours == 2.0
    window = Window(began, end)
    assert window.end - window.start == timedelta(hours=2)
    assert datetime(2026, 11, 1, 6, 15, tzinfo=UTC) in window


@pytest.mark.parametrize(
    ("fields", "later", "want_lost_h", "want_saved_h"),
    [
        pytest.param({}, None, 0, 0, id="a completed attempt loses nothing"),
        pytest.param({"end_reason": EndReason.FAILED}, None, 4, 0, id="nothing saved: all is lost"),
        pytest.param(
            {"end_reason": EndReason.PREEMPTED, "checkpoint": "c", "checkpointed_at": at(3)},
            "c", 1, 3, id="preempted after a checkpoint that the next attempt restored",
        ),
        pytest.param(
            {"end_reason": EndReason.PREEMPTED, "checkpoint": "c", "checkpointed_at": at(3)},
            None, 1, 0, id="no attempt resumed from the checkpoint: it saved nothing",
        ),
        pytest.param(
            {"end_reason": EndReason.CRASHED, "checkpoint": "c", "checkpointed_at": at(9)},
            "c", 0, 4, id="a checkpoint after the end, by another clock, counts to the end",
        ),
        pytest.param(
            {"end_reason": EndReason.CRASHED, "checkpoint": "c", "checkpointed_at": at(-9)},
            "c", 4, 0, id="a checkpoint before the admission saved nothing of this attempt",
        ),
    ],
)  # fmt: skip
def test_work_after_the_last_checkpoint_is_lost(
    fields: dict[str, Any], later: str | None, want_lost_h: float, want_saved_h: float
) -> None:
    first = ended(hours=4, **fields)
    second = make_attempt(number=2, admitted_at=at(5), restored_from=later)
    cost = run_cost(make_run(), (first, second), now=at(5))
    assert cost.lost.gpu_us == want_lost_h * HOUR_US
    assert cost.lost_micro_usd == want_lost_h * 1_000_000
    assert cost.saved.gpu_s == want_saved_h * 3600


def test_an_attempt_that_still_runs_has_lost_nothing() -> None:
    assert run_cost(make_run(), (make_attempt(),), now=at(4)).lost == NO_USAGE


def test_each_wait_counts() -> None:
    """Half an hour before the first attempt, which lasts one and a half, and one hour after it."""
    second, first = ended(2, admitted_at=at(3), hours=4), ended(1, admitted_at=at(0.5), hours=2)
    cost = run_cost(make_run(), (second, first), now=at(9))
    assert (cost.wait_s, cost.rewaits) == (1800 + 3600, 1)
    assert [attempt.number for attempt in cost.attempts] == [1, 2]


def test_a_pause_for_a_person_is_no_wait_for_gpus() -> None:
    first = ended(1, admitted_at=at(0.5), end_reason=EndReason.SUSPENDED)
    cost = run_cost(make_run(), (first, ended(2, admitted_at=at(8), hours=9)), now=at(9))
    assert cost.wait_s == 1800


def test_a_run_that_was_never_admitted_has_no_wait_yet() -> None:
    cost = run_cost(make_run(), (), now=at(9))
    assert (cost.wait_s, cost.rewaits, cost.total_micro_usd) == (None, 0, 0)


def test_a_run_with_an_unpriced_part_is_unpriced_but_its_known_part_counts() -> None:
    parts = (ended(1), ended(2, admitted_at=at(2), hours=5, price_micro_usd_per_gpu_hour=None))
    cost = run_cost(make_run(), parts, now=at(9))
    assert cost.total_micro_usd is None
    assert cost.unpriced_gpu_s == 3 * 3600
    assert total([cost]).usage == Usage(
        gpu_us=4 * HOUR_US, gpu_micro_usd=1_000_000, unpriced_gpu_us=3 * HOUR_US
    )


def test_a_day_has_the_runs_that_held_gpus_on_it() -> None:
    over_midnight = ended(hours=14)
    days = daily_costs([(make_run(), (over_midnight,))], Window.of_day(date(2026, 3, 4)), at(99))
    (cost,) = days[date(2026, 3, 4)]
    assert list(days) == [date(2026, 3, 4)]
    assert cost.usage.gpu_hours == 12


def test_the_dearest_group_comes_first() -> None:
    costs = [
        run_cost(make_run("a", team="cheap"), (ended(hours=1),), NOON),
        run_cost(make_run("b", team="dear"), (ended(hours=3),), at(9)),
        run_cost(make_run("c", team=None), (ended(hours=2),), at(9)),
    ]
    assert list(group_by(costs, lambda run: run.team)) == ["dear", None, "cheap"]


def test_the_price_book_distinguishes_prices_and_nothing_else() -> None:
    same = price_book([ended(1), ended(2, hours=7)])
    assert same == price_book([ended(3)])
    assert same != price_book([ended(price_micro_usd_per_gpu_hour=1)])
    assert same != price_book([ended(price_micro_usd_per_gpu_hour=None)])


def test_a_window_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"window\.end is before its start"):
        Window(at(1), at(0))


def test_a_run_that_was_postponed_has_waited_until_it_was_taken() -> None:
    """Two tries before it, which held nothing."""
    postponed = [
        make_attempt(
            number=number,
            admitted_at=at(number),
            released_at=at(number),
            end_reason=EndReason.POSTPONED,
        )
        for number in (1, 2)
    ]
    taken = replace(ended(), number=3, attempt_id="run-1/3", admitted_at=at(5), released_at=at(6))
    cost = run_cost(make_run(submitted_at=at(0)), [*postponed, taken], now=at(9))
    assert cost.wait_s == 5 * 3600
    assert (cost.rewaits, cost.attempts, cost.setbacks) == (0, (taken,), ())
    assert cost.usage.gpu_hours == 1.0
