"""A month on one page, whose tables add up."""

from datetime import date

import pytest

from gpu_core.decisions.costs.capacity.idle import IdleRule, with_idle
from gpu_core.decisions.costs.reports.cost_report import CostReport, cost_report, period_window
from gpu_core.decisions.costs.reports.month_report import (
    KEYS,
    MonthReport,
    month_before,
    month_markdown,
    month_windows,
)
from gpu_core.decisions.costs.usage.usage import Usage
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.testing.builders.attempts import NOON, at
from tests.gpu_core.decisions.costs.anomalies.builders import slice_of

MARCH = date(2026, 3, 1)


def report(usd: float, teams: int = 1) -> CostReport:
    """A month in which each team spent so much."""
    slices = [slice_of(f"team-{n:02}", usd) for n in range(teams)]
    by_team = [part.__class__(keys=part.keys[:1], tariff=part.tariff, uses_us=part.uses_us,
                              attempts=1) for part in slices]  # fmt: skip
    runs = {(): teams}
    return cost_report(period_window("month", MARCH), ("team",), by_team, runs)


def month(now: CostReport, before: CostReport, *, is_over: bool = True) -> str:
    """The page of March."""
    return month_markdown(
        MonthReport(
            first_day=MARCH, is_over=is_over, reports=dict.fromkeys(KEYS, now), before=before
        )
    )


@pytest.mark.parametrize(
    ("before", "want"),
    [
        pytest.param(80.0, ", 25% more than in the month before ($80.00).", id="more"),
        pytest.param(200.0, ", 50% less than in the month before ($200.00).", id="less"),
        pytest.param(100.0, ", as much as in the month before ($100.00).", id="the same"),
        pytest.param(0.0, "in 1 run.", id="nothing before"),
    ],
)
def test_the_headline_compares_with_the_month_before(before: float, want: str) -> None:
    headline = month(report(100.0), report(before)).splitlines()[2]
    assert headline.startswith("**$100.00 for 100.00 GPU-hours in 1 run")
    assert headline.endswith(f"{want}**")


def test_long_tables_end_with_the_others() -> None:
    page = month(report(10.0, teams=12), report(10.0))
    assert "| team-09 | $10.00 | 10.00 | 1 |\n| 2 others | $20.00 | 20.00 | 2 |" in page
    assert "Of that: $120.00 for progress." in page
    assert page.count("## By ") == len(KEYS)


def test_hours_of_gpus_that_were_not_well_are_named() -> None:
    hour = Usage(gpu_us=3_600_000_000, gpu_micro_usd=2_000_000)
    now = with_idle(report(1.0), hour.times(3), IdleRule.NONE, hour)
    page = month(now, report(1.0))
    assert "The cost of idle capacity was $6.00 (3.00 GPU-hours)." in page
    assert "Of these, 1.00 GPU-hours for $2.00 were caused by unhealthy GPUs." in page
    assert "unhealthy" not in month(report(1.0), report(1.0))


def test_a_month_that_is_not_over_says_so() -> None:
    assert "> The month is not over" in month(report(1.0), report(1.0), is_over=False)
    assert "> The month is not over" not in month(report(1.0), report(1.0))


def test_a_month_without_a_run_is_reported_as_such() -> None:
    page = month(report(1.0, teams=0), report(1.0))
    assert "**No GPU usage found.**" in page
    assert "## By" not in page


def test_each_month_has_an_artifact_of_its_own() -> None:
    reports = dict.fromkeys(KEYS, report(1.0))
    keys = [
        MonthReport(
            first_day=MARCH, is_over=True, reports=reports, before=report(1.0), with_generated=made
        ).artifact_key
        for made in (False, True)
    ]
    assert keys == ["gpu-cost-2026-03", "gpu-cost-2026-03-with-generated"]


@pytest.mark.parametrize(
    ("hours", "want"),
    [
        pytest.param(0, date(2026, 2, 1), id="in March: February"),
        pytest.param(-24 * 40, date(2025, 12, 1), id="in January: December of the year before"),
    ],
)
def test_the_month_that_is_closed(hours: float, want: date) -> None:
    assert month_before(at(hours)) == want


def test_a_month_that_has_not_begun_is_refused() -> None:
    window, before = month_windows(date(2026, 3, 31), NOON)
    assert (window.start.date(), before.start.date()) == (MARCH, date(2026, 2, 1))
    assert before.end == window.start
    with pytest.raises(InvalidInput, match="month has not started"):
        month_windows(date(2026, 4, 1), NOON)
