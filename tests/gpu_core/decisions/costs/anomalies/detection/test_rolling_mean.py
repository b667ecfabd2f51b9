"""A dear day is flagged by the rule, with the few runs that made it dear."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest

from gpu_core.decisions.costs.anomalies.detection.judgment import AnomalyVerdict, Judgment
from gpu_core.decisions.costs.anomalies.detection.rolling_mean import Thresholds, judge_by_mean
from gpu_core.decisions.costs.usage.usage_cost import RunCost, run_cost
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.testing.builders.attempts import make_attempt, make_run

DAY = date(2026, 3, 18)


def spent(usd: float, day: date, name: str = "run", **fields: Any) -> RunCost:
    """A run that cost so much on a day: one GPU for an hour at that price."""
    admitted_at = datetime.combine(day, time(6), UTC)
    run_id = f"{name}-{day}"
    attempt = make_attempt(
        run_id,
        admitted_at=admitted_at,
        released_at=admitted_at + timedelta(hours=1),
        end_reason=EndReason.COMPLETED,
        price_micro_usd_per_gpu_hour=round(usd * 1_000_000),
    )
    run = make_run(run_id, name=name, submitted_at=admitted_at, **fields)
    return run_cost(run, (attempt,), admitted_at + timedelta(hours=2))


def week_of(usd: float, **fields: Any) -> dict[date, list[RunCost]]:
    """The seven days before the day, each with one run of so much."""
    return {DAY - timedelta(days=back): [spent(usd, DAY - timedelta(days=back), **fields)]
            for back in range(1, 8)}  # fmt: skip


def judge_total(costs: dict[date, list[RunCost]], **thresholds: int) -> Judgment:
    """The judgment of everyone together."""
    return judge_by_mean(DAY, costs, Thresholds(**thresholds))[0]


@pytest.mark.parametrize(
    ("usd", "want"),
    [
        pytest.param(120, AnomalyVerdict.USUAL, id="exactly 20% over the mean is still usual"),
        pytest.param(120.000001, AnomalyVerdict.ANOMALY, id="a micro-dollar more is not"),
        pytest.param(0, AnomalyVerdict.USUAL, id="a day without cost is usual"),
    ],
)
def test_a_day_is_flagged_above_20_percent_over_the_mean(usd: float, want: AnomalyVerdict) -> None:
    assert judge_total(week_of(100) | {DAY: [spent(usd, DAY)]}).verdict is want


def test_the_threshold_is_an_argument() -> None:
    costs = week_of(100) | {DAY: [spent(120, DAY)]}
    assert judge_total(costs, over_mean_percent=19).verdict is AnomalyVerdict.ANOMALY


def test_with_less_than_seven_days_of_history_it_says_so_and_flags_nothing() -> None:
    costs = week_of(100) | {DAY: [spent(10_000, DAY)]}
    del costs[DAY - timedelta(days=7)]
    got = judge_total(costs)
    assert (got.verdict, got.expected_micro_usd, got.causes) == (
        AnomalyVerdict.NOT_ENOUGH_HISTORY,
        None,
        (),
    )
    assert "not enough history" in got.summary


def test_days_of_rest_count_as_zero_once_the_history_is_long_enough() -> None:
    costs = {DAY - timedelta(days=9): [spent(5, DAY - timedelta(days=9))],
             DAY - timedelta(days=2): [spent(70, DAY - timedelta(days=2))],
             DAY: [spent(13, DAY)]}  # fmt: skip
    got = judge_total(costs)
    assert (got.verdict, got.expected_micro_usd) == (AnomalyVerdict.ANOMALY, 10_000_000)
    assert "30% over (7-day mean $10.00)" in got.summary


def test_a_single_dear_run_is_named_and_its_ordinary_neighbors_are_not() -> None:
    costs = week_of(100) | {DAY: [spent(100, DAY, "ordinary"), spent(900, DAY, "sweep")]}
    (cause,) = judge_total(costs).causes
    assert cause.run.name == "sweep"
    assert (cause.cost_micro_usd, cause.excess_micro_usd) == (900_000_000, 900_000_000)


def test_a_run_is_compared_with_its_own_deployment() -> None:
    """The dearest run is what its deployment always costs; the cause is another."""
    costs = week_of(1000, deployment="train/large")
    costs[DAY] = [spent(1000, DAY, "large", deployment="train/large"),
                  spent(400, DAY, "new", deployment="train/new")]  # fmt: skip
    assert [cause.run.name for cause in judge_total(costs).causes] == ["new"]


def test_a_storm_of_ordinary_runs_is_a_cause() -> None:
    costs = week_of(10) | {DAY: [spent(10, DAY, f"retry-{index}") for index in range(9)]}
    got = judge_total(costs)
    assert len(got.causes) == 5
    assert all(cause.excess_micro_usd == 10_000_000 for cause in got.causes)


def test_causes_stop_when_most_of_the_excess_is_explained() -> None:
    today = [spent(usd, DAY, f"new-{usd}", deployment=f"new/{usd}") for usd in (500, 320, 100, 80)]
    costs = week_of(10) | {DAY: [spent(10, DAY), *today]}
    assert [cause.run.name for cause in judge_total(costs).causes] == ["new-500", "new-320"]
    everything = judge_total(costs, explained_percent=100, most_causes=3)
    assert [cause.run.name for cause in everything.causes] == ["new-500", "new-320", "new-100"]


def test_teams_are_judged_by_themselves() -> None:
    """One team's saving hides another's excess in the total."""
    costs = {day: [*on_day, spent(100, day, "other", team="language", deployment="other/gpu")]
             for day, on_day in week_of(100).items()}  # fmt: skip
    costs[DAY] = [spent(180, DAY), spent(20, DAY, "other", team="language"),
                  spent(1, DAY, "nobody", team=None)]  # fmt: skip
    got = {judgment.scope: judgment.verdict for judgment in judge_by_mean(DAY, costs)}
    want = {
        "total": AnomalyVerdict.USUAL,
        "no team": AnomalyVerdict.NOT_ENOUGH_HISTORY,
        "team language": AnomalyVerdict.USUAL,
        "team vision": AnomalyVerdict.ANOMALY,
    }
    assert got == want


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("over_mean_percent", -1),
        ("history_days", 0),
        ("explained_percent", 101),
        ("most_causes", 0),
    ],
)
def test_thresholds_out_of_range_are_refused_by_name(field: str, value: int) -> None:
    with pytest.raises(InvalidInput, match=f"{field} is out of range"):
        Thresholds(**{field: value})
