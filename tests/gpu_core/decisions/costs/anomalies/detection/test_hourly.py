"""Hours are judged by the same hours of the weeks before."""

from collections.abc import Callable
from datetime import date, datetime, timedelta

import pytest

from gpu_core.decisions.costs.anomalies.detection.hourly import unusual_hours
from gpu_core.decisions.costs.anomalies.detection.planned import PlannedActivity
from gpu_core.decisions.costs.reports.cost_history import DailyCosts
from gpu_core.decisions.costs.usage.usage_cost import Window, daily_costs
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.testing.builders.attempts import make_attempt, make_run

DAY = date(2026, 3, 4)
START = Window.of_day(DAY).start
END = Window.of_day(DAY).end
MICRO = 1_000_000


def costs(usd_of: Callable[[int, int], float], days: int = 28) -> DailyCosts:
    """A run in each hour; `usd_of(days_back, hour)` is what it costs."""
    records = []
    for back in range(days + 1):
        for hour in range(24):
            begin = START - timedelta(days=back) + timedelta(hours=hour)
            price = round(usd_of(back, hour) * MICRO)
            attempt = make_attempt(
                f"{back}/{hour}",
                admitted_at=begin,
                released_at=begin + timedelta(hours=1),
                end_reason=EndReason.COMPLETED,
                price_micro_usd_per_gpu_hour=price,
            )
            records.append((make_run(f"{back}/{hour}"), (attempt,)))
    window = Window(START - timedelta(days=days), END)
    return daily_costs(records, window, END)


def said(found: DailyCosts, now: datetime = END) -> list[str]:
    """The sentences about the day."""
    return [hours.summary for hours in unusual_hours(DAY, found, now)]


def busy_days(_back: int, hour: int) -> float:
    """$10 an hour at work, $2 at night, and a little noise."""
    return (10.0 if 8 <= hour < 18 else 2.0) * (1 + 0.03 * ((7 * _back + 5 * hour) % 11 - 5) / 5)


def test_hours_in_a_row_are_one_sentence_for_the_total_and_the_team() -> None:
    found = costs(lambda back, hour: 9.0 if back == 0 and hour in (2, 3) else busy_days(back, hour))
    sentences = said(found)
    assert [text.partition(":")[0] for text in sentences] == [
        "total from 02",
        "team vision from 02",
    ]
    assert sentences[0].startswith("total from 02:00 to 04:00 UTC: expected $4.")
    assert ", actual $18.00 (3" in sentences[0]


@pytest.mark.parametrize(
    ("usd_of", "days", "want"),
    [
        pytest.param(busy_days, 28, 0, id="an ordinary day"),
        pytest.param(
            lambda back, hour: 0.9 if (back, hour) == (0, 2) else busy_days(back, hour) / 20,
            28, 0, id="less than a dollar too much",
        ),
        pytest.param(
            lambda back, hour: 9.0 if back == 0 and hour == 2 else busy_days(back, hour), 5, 0,
            id="five days are no history",
        ),
        pytest.param(lambda back, _: 90.0 if back == 0 else 1.0, 0, 0, id="no day before"),
        pytest.param(
            lambda back, hour: 5.0 if hour == (9 if back else 20) else 0.0, 28, 0,
            id="where most hours rest, work at another hour is usual",
        ),
        pytest.param(
            lambda back, hour: (5.0 if back else 50.0) if hour == 9 else 0.0, 28, 2,
            id="and a new peak is not",
        ),
    ],
)  # fmt: skip
def test_what_is_unusual(usd_of: Callable[[int, int], float], days: int, want: int) -> None:
    assert len(said(costs(usd_of, days))) == want


def test_an_hour_that_is_not_over_is_not_judged() -> None:
    found = costs(lambda back, hour: 9.0 if back == 0 and hour == 2 else busy_days(back, hour))
    assert said(found, START + timedelta(hours=2, minutes=59)) == []
    assert len(said(found, START + timedelta(hours=3))) == 2


def test_planned_days_are_not_judged() -> None:
    found = costs(lambda back, hour: 9.0 if back == 0 and hour == 2 else busy_days(back, hour))
    planned = [PlannedActivity(name="x", first_day=DAY, last_day=DAY, team="vision")]
    assert unusual_hours(DAY, found, END, planned) == ()


def test_the_last_hour_ends_at_24() -> None:
    found = costs(lambda back, hour: 9.0 if back == 0 and hour == 23 else busy_days(back, hour))
    assert said(found)[0].startswith("total from 23:00 to 24:00 UTC: ")
