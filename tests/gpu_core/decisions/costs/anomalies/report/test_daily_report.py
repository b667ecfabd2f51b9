"""The day's report says what it cost, what was lost, what is unknown, and what is made up."""

from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path

import pytest

from gpu_core.decisions.costs.anomalies.detection.judgment import AnomalyVerdict
from gpu_core.decisions.costs.anomalies.report.daily_report import (
    DayReport,
    artifact_keys,
    day_before,
    report_day,
    window_to_read,
)
from gpu_core.decisions.costs.anomalies.report.daily_report_markdown import team_rows, to_markdown
from gpu_core.decisions.costs.reports.demo_history import ANOMALY_NAME, generated_history
from gpu_core.decisions.costs.usage.usage_cost import daily_costs, run_cost
from gpu_core.decisions.model.attempts import Attempt, EndReason, Provenance
from gpu_core.testing.builders.attempts import at, make_attempt, make_run
from tests.gpu_core.decisions.costs.anomalies.builders import history_of
from tests.gpu_core.decisions.costs.capacity.test_idle import cost, held, machine

DAY = date(2026, 3, 4)
GOLDEN = Path(__file__).parent / "golden_report.md"


def small_day() -> DayReport:
    """Two teams: one run preempted and resumed, one half unpriced, one that is made up."""
    preempted = make_attempt(
        "resumed", gpu_ids=("0", "1"), released_at=at(3), end_reason=EndReason.PREEMPTED,
        checkpoint="c1", checkpointed_at=at(2.5),
    )  # fmt: skip
    resumed = make_attempt(
        "resumed", 2, gpu_ids=("0", "1"), admitted_at=at(4), released_at=at(5),
        end_reason=EndReason.COMPLETED, restored_from="c1",
    )  # fmt: skip
    crashed = make_attempt(
        "crashed", released_at=at(1), end_reason=EndReason.CRASHED, is_charged_failure=True
    )
    unpriced = make_attempt(
        "crashed", 2, gpu_type="b300", price_micro_usd_per_gpu_hour=None, admitted_at=at(2),
        released_at=at(2.5), end_reason=EndReason.COMPLETED,
    )  # fmt: skip
    made_up = make_attempt("made-up", released_at=at(1), end_reason=EndReason.COMPLETED)
    usage = [
        (make_run("resumed", name="digits | large"), (preempted, resumed)),
        (make_run("crashed", team="language", project=None), (crashed, unpriced)),
        (make_run("made-up", provenance=Provenance.GENERATED), (made_up,)),
    ]
    now = at(36)
    return report_day(DAY, daily_costs(usage, window_to_read(DAY), now), now)


@cache
def generated_day(day: date = DAY, now: datetime | None = None) -> DayReport:
    """A generated day after a generated month."""
    now = now or datetime(2026, 4, 1, tzinfo=UTC)
    records = generated_history(42, DAY)
    costs = daily_costs(records, window_to_read(day), now)
    return report_day(day, costs, now, history=history_of(records, day, now))


def test_the_report_reads_like_the_golden_one() -> None:
    assert to_markdown(small_day()) == GOLDEN.read_text()


def test_machines_are_listed_with_their_idle_time() -> None:
    """Eleven nodes: the last two are one row, and rows add up to all machines."""
    machines = [machine(f"node-{n:02}", gpus=n) for n in range(1, 13)]
    capacity = cost(machines, [held(1, node="node-01")])
    page = to_markdown(report_day(DAY, {}, at(36), capacity=capacity))
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| ")]
    assert [row[0].strip("| ") for row in rows[-3:]] == ["node-03", "2 others", "all machines"]
    assert [cell.strip(" |") for cell in rows[-1][1:]] == ["$88.08", "$88.08", "156.00", "156.00"]
    assert "Machines" not in to_markdown(report_day(DAY, {}, at(36)))


def test_what_runs_paid_beyond_their_machine_is_said() -> None:
    """Clocks differed: three runs held one GPU in the same hour, and it was idle in another one."""
    capacity = cost([machine()], [held(number) for number in (1, 2, 3)])
    page = to_markdown(report_day(DAY, {}, at(36), capacity=capacity))
    assert "The cost charged to runs exceeds the cost of the machines by $7.34" in page
    one = cost([machine()], [held(1)])
    assert "Runs paid" not in to_markdown(report_day(DAY, {}, at(36), capacity=one))


def test_the_table_has_a_row_for_each_team_and_one_for_the_total() -> None:
    got = {row["team"]: (row["runs"], row["gpu_hours"], row["cost"]) for row in
           team_rows(small_day())}  # fmt: skip
    want = {
        "vision": ("2", "9.00", "$9.00"),
        "language": ("1", "1.50", "$1.00 (unpriced: 0.50 GPU-hours)"),
        "total": ("3", "10.50", "$10.00 (unpriced: 0.50 GPU-hours)"),
    }
    assert got == want


def test_a_day_without_runs_is_said_in_one_line() -> None:
    report = report_day(DAY, {}, at(36))
    assert to_markdown(report) == "# GPU cost on 2026-03-04\n\n**No GPU usage found.**\n"
    assert [row["team"] for row in team_rows(report)] == ["total"]


def test_a_day_that_is_not_over_says_so() -> None:
    page = to_markdown(generated_day(now=at(1)))
    assert "The day is not over" in page
    # A part of a day is not compared with a whole one.
    assert "expected)" not in page.splitlines()[2]
    assert "The day is not over" not in to_markdown(generated_day())


def test_the_anomaly_is_flagged_with_the_run_that_caused_it() -> None:
    report = generated_day()
    assert report.judgments[0].verdict is AnomalyVerdict.ANOMALY
    assert [cause.run.name for cause in report.judgments[0].causes] == [ANOMALY_NAME]
    assert f"- {ANOMALY_NAME} of generated-finetune-7b" in to_markdown(report)


def test_a_cause_and_the_only_team_are_named_once() -> None:
    page = to_markdown(generated_day())
    assert page.count(f"- {ANOMALY_NAME} of ") == 1
    costs = {
        DAY - timedelta(days=before): [run_cost(make_run(), [a_day_of_work(before)], at(99))]
        for before in range(8)
    }
    report = report_day(DAY, costs, at(36))
    assert [judgment.verdict for judgment in report.judgments] == [AnomalyVerdict.ANOMALY] * 2
    assert "**total: " in to_markdown(report)
    assert "team vision: " not in to_markdown(report)
    assert [row["team"] for row in team_rows(report)] == ["vision"]


def a_day_of_work(days_before: int) -> Attempt:
    """An hour, and five hours on the test day itself."""
    start = at(-24 * days_before)
    hours = 1 if days_before else 5
    return make_attempt(admitted_at=start, released_at=start + timedelta(hours=hours))


@pytest.mark.parametrize(
    ("day", "known_days", "want"),
    [
        pytest.param(date(2026, 3, 4), 6, None, id="less than a week is known"),
        pytest.param(
            date(2026, 3, 14), 7,
            "March so far: $28.00; at the mean of the last 7 days ($4.00) the whole month costs "
            "$96.00.", id="a week is known",
        ),
        pytest.param(
            date(2026, 3, 14), 14,
            "The last 7 days cost $28.00, 300% more than the 7 days before ($7.00). March "
            "so far: $35.00; at the mean of the last 7 days ($4.00) the whole month costs $103.00.",
            id="two weeks are known",
        ),
        pytest.param(
            date(2026, 3, 31), 31,
            "The last 7 days cost $28.00, 300% more than the 7 days before ($7.00). March "
            "cost $52.00.", id="the last day of a month",
        ),
    ],
)  # fmt: skip
def test_where_costs_are_going(day: date, known_days: int, want: str | None) -> None:
    """A dollar a day, and four in the last week."""
    costs = {}
    for before in range(known_days):
        start = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(days=before)
        end = start + timedelta(hours=4 if before < 7 else 1)
        attempt = make_attempt(admitted_at=start, released_at=end)
        costs[start.date()] = [run_cost(make_run(), [attempt], end)]
    assert report_day(day, costs, at(999)).outlook == want


def test_an_ordinary_day_says_that_nothing_stands_out() -> None:
    assert "No anomalies detected." in to_markdown(generated_day(DAY - timedelta(days=1)))


def test_generated_data_says_so_before_any_number_of_a_table() -> None:
    page = to_markdown(generated_day())
    assert page.index("Generated data.") < page.index("| Team |")


@pytest.mark.parametrize(
    ("with_generated", "want_report", "want_teams"),
    [
        pytest.param(False, "gpu-cost-report", "gpu-cost-by-team", id="measured"),
        pytest.param(
            True,
            "gpu-cost-report-with-generated",
            "gpu-cost-by-team-with-generated",
            id="a report with generated runs never takes the place of a measured one",
        ),
    ],
)
def test_where_a_report_is_published(
    with_generated: bool, want_report: str, want_teams: str
) -> None:
    keys = artifact_keys(with_generated=with_generated)
    assert (keys.report, keys.teams) == (want_report, want_teams)


def test_a_nightly_report_is_about_the_utc_day_before() -> None:
    india = datetime.fromisoformat("2026-03-05T03:00:00+05:30")
    assert day_before(india) == date(2026, 3, 3)


def test_a_day_that_is_not_over_is_not_too_cheap() -> None:
    records = generated_history(42, DAY - timedelta(days=1), anomaly_on=date(2020, 1, 1))
    for now, want in ((at(1), "No anomalies detected."), (at(36), "Daily cost drop")):
        report = report_day(DAY, {}, now, history=history_of(records, DAY, now))
        assert want in to_markdown(report)


def test_parts_with_the_causes_of_the_total_are_items_of_a_list() -> None:
    judged = generated_day().judgments
    flagged = [judgment for judgment in judged if judgment.is_anomaly]
    lines = to_markdown(generated_day()).splitlines()
    assert sum(line.startswith("**Daily cost") for line in lines) == 1
    assert sum(line.startswith("- Daily cost") for line in lines) == len(flagged) - 1 > 0
