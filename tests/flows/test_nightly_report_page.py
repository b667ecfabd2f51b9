"""Each number of the quickstart's nightly report is worked out in docs/nightly-report.md.

The tables of the page are compared with the generated attempts, its sums are done again here from
these tables, and the flow's own code renders the report that its numbers must stand in.
"""

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import product
from pathlib import Path
from statistics import median

import pytest

from flows.report_cost import read_and_decide
from gpu_core.adapters.files.policy_file import load_policy
from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.daily_costs import RunFilter
from gpu_core.decisions.costs.anomalies.detection.judgment import ComparisonRule
from gpu_core.decisions.costs.anomalies.detection.known import Known
from gpu_core.decisions.costs.anomalies.report.daily_report_markdown import to_markdown
from gpu_core.decisions.costs.reports.demo_history import (
    QUICKSTART_DAY,
    QUICKSTART_DAYS,
    quickstart_history,
)
from gpu_core.decisions.model.attempts import Attempt
from tests.support.nightly_report import (
    number,
    numbers_in,
    places,
    report,
    sums,
    tables,
    without_picture,
)

POLICY = Path(__file__).parents[2] / "deployments" / "policy.yaml"
FIRST_DAY = QUICKSTART_DAY - timedelta(days=QUICKSTART_DAYS - 1)
WEEKDAYS = ("Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed")
# Seconds of an hour, percents, the smallest standard deviation, the $1 that is added, means of two
# and of seven days, days left in the month, and the counts of runs, days, changes and hours that
# the words around the sums explain.
STATED = {"3600", "100", "0.05", "1", "2", "3", "4", "5", "7", "8", "9", "14", "20", "22"}

DEPLOYMENTS, ATTEMPTS, TOTALS, ALL_RUNS, TEAM, DEPLOYMENT, WEDNESDAYS = tables()
BY_NAME = {row["Deployment"]: row for row in DEPLOYMENTS}
RECORDS = quickstart_history()
SCOPES = {
    "all runs": set(BY_NAME),
    "a team": {"finetune-7b", "evaluate-7b"},
    "a deployment": {"finetune-7b"},
}
"""The deployments of each table of days."""


def short(name: str | None) -> str:
    """As the page shortens a name."""
    return (name or "").removeprefix("generated-").removesuffix("/generated")


def seconds(attempt: Attempt, until: datetime | None) -> str:
    """From admission, as the page writes it; empty: never."""
    return "" if until is None else f"{(until - attempt.admitted_at).total_seconds():,.0f}"


def costs_by_day(names: set[str]) -> dict[date, float]:
    """What attempts of these deployments cost on each day: seconds × GPUs × price."""
    days: dict[date, float] = {}
    for run, attempts in RECORDS:
        price = number(BY_NAME[short(run.flow_name)]["Price of a GPU-hour"])
        for attempt in attempts if short(run.flow_name) in names else ():
            assert attempt.released_at is not None
            assert attempt.released_at.date() == attempt.admitted_at.date()
            held_s = (attempt.released_at - attempt.admitted_at).total_seconds()
            day = attempt.admitted_at.date()
            days[day] = days.get(day, 0) + held_s * len(attempt.gpu_ids) * price / 3600
    return days


def test_the_tables_are_the_attempts_that_the_quickstart_generates() -> None:
    of_day = [
        (short(run.name), short(run.flow_name), str(a.number), seconds(a, a.released_at),
         seconds(a, a.checkpointed_at))
        for run, attempts in RECORDS
        for a in attempts
        if a.admitted_at.date() == QUICKSTART_DAY
    ]  # fmt: skip
    columns = ("Run", "Deployment", "Attempt", "Held, s", "Saved after, s")
    assert [tuple(row[column] for column in columns) for row in ATTEMPTS] == of_day
    of_runs = {
        (short(run.flow_name), short(run.team), short(run.project), run.workload_type,
         str(len(a.gpu_ids)), a.gpu_type, a.capacity_type, a.price_micro_usd_per_gpu_hour)
        for run, attempts in RECORDS
        for a in attempts
    }  # fmt: skip
    assert of_runs == {
        (*list(row.values())[:-1], round(1e6 * number(row["Price of a GPU-hour"])))
        for row in DEPLOYMENTS
    }


def test_an_attempt_costs_its_seconds_times_gpus_times_price() -> None:
    for row in ATTEMPTS:
        of = BY_NAME[row["Deployment"]]
        hours = number(of["GPUs"]) * number(row["Held, s"]) / 3600
        assert row["GPU-hours"] == f"{hours:.6f}"
        assert row["Cost"] == f"{hours * number(of['Price of a GPU-hour']):.6f}"


def test_the_attempts_of_a_deployment_add_up_to_its_row() -> None:
    for row in TOTALS:
        of = BY_NAME[row["Deployment"]]
        price_of_s = number(of["GPUs"]) * number(of["Price of a GPU-hour"]) / 3600
        mine = [each for each in ATTEMPTS if each["Deployment"] == row["Deployment"]]
        held = [number(each["Held, s"]) for each in mine]
        ended = [each for each in mine if each["Saved after, s"]]
        saved = sum(number(each["Saved after, s"]) for each in ended)
        lost = sum(number(each["Held, s"]) for each in ended) - saved
        assert number(row["Runs"]) == len({each["Run"] for each in mine})
        assert row["GPU-hours"] == f"{sum(held) * number(of['GPUs']) / 3600:.6f}"
        for column, amount_s in (("Cost", sum(held)), ("Lost", lost), ("Saved", saved)):
            assert row[column] == f"{amount_s * price_of_s:.6f}", column


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        pytest.param(ALL_RUNS, SCOPES["all runs"], id="all runs"),
        pytest.param(TEAM, SCOPES["a team"], id="a team"),
        pytest.param(DEPLOYMENT, SCOPES["a deployment"], id="a deployment"),
    ],
)
def test_the_days_before_have_their_costs_and_medians(
    rows: list[dict[str, str]], names: set[str]
) -> None:
    costs = costs_by_day(names)
    *weeks, medians = rows
    for offset, (week, weekday) in enumerate(product(weeks, WEEKDAYS)):
        day = FIRST_DAY + timedelta(days=offset)
        assert f"{day:%a}" == weekday
        assert week[weekday] == f"{costs[day]:.6f}"
    for first, weekday in enumerate(WEEKDAYS):
        assert medians[weekday] == f"{median_before(costs, first):.6f}"


def median_before(costs: dict[date, float], weekday: int) -> float:
    """The median of this place of the week, of logarithms, without the day that is judged."""
    days = [FIRST_DAY + timedelta(days=weekday, weeks=week) for week in range(6)]
    logs = [math.log(costs[day] + 1) for day in days if day != QUICKSTART_DAY]
    return math.exp(median(logs)) - 1


def test_the_four_wednesdays_are_those_of_the_tables() -> None:
    held_s: dict[str, list[float]] = {}
    for run, attempts in RECORDS:
        for a in attempts if short(run.flow_name) == "finetune-7b" else ():
            held_s.setdefault(str(a.admitted_at.date()), []).append(
                number(seconds(a, a.released_at))
            )
    for back, row in zip((4, 3, 2, 1), WEDNESDAYS, strict=True):
        day = QUICKSTART_DAY - timedelta(weeks=back)
        assert row["Wednesday"] == str(day)
        week = ALL_RUNS.index(
            next(r for r in ALL_RUNS if r["From"] == str(day - timedelta(days=6)))
        )
        assert row["All runs"] == ALL_RUNS[week]["Wed"]
        assert row["Team language"] == TEAM[week]["Wed"]
        assert row["finetune-7b"] == DEPLOYMENT[week]["Wed"]
        assert row["label-images"] == f"{costs_by_day({'label-images'})[day]:.6f}"
        runs_s = held_s[str(day)]
        assert len(runs_s) == 2
        assert row["Runs of finetune-7b, s"] == f"{sum(runs_s):,.0f}"
        assert row["Longest, s"] == f"{max(runs_s):,.0f}"


def levels(names: set[str]) -> Iterator[str]:
    """The two in the middle of the last 28 days, each as a multiple of its weekday's median."""
    costs = costs_by_day(names)
    medians = [median_before(costs, weekday) for weekday in range(7)]
    of_days = sorted(
        (costs[FIRST_DAY + timedelta(days=offset)] + 1) / (medians[offset % 7] + 1)
        for offset in range(QUICKSTART_DAYS - 29, QUICKSTART_DAYS - 1)
    )
    return (f"{ratio:.8f}" for ratio in of_days[13:15])


def test_each_sum_is_right_and_made_of_what_the_page_has() -> None:
    known = {cell for rows in tables() for row in rows for cell in row.values()} | STATED
    known.update(level for names in SCOPES.values() for level in levels(names))
    for each in sums():
        assert set(each.numbers()) <= known, each.text
        want = f"{each.value():,.{places(each.result)}f}".replace("-", "−")
        assert each.result == want, each.text
        known.add(each.result)


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the flow publishes for the quickstart's day, by the quickstart's policy."""
    folder = tmp_path_factory.mktemp("ledger")
    with Ledger.open(f"sqlite:///{folder}/ledger.db") as ledger:
        ledger.import_records(RECORDS)
        wanted = RunFilter(now=datetime(2026, 12, 1, tzinfo=UTC), with_generated=True)
        policy = load_policy(POLICY)
        found = read_and_decide(
            ledger, QUICKSTART_DAY, wanted, ComparisonRule.SEASONAL, Known.by(policy, ()), policy
        )
    return to_markdown(found)


def test_the_page_has_the_whole_report_as_the_flow_renders_it(rendered: str) -> None:
    assert report() == without_picture(rendered)


def test_each_number_of_the_report_is_in_a_table_or_the_result_of_a_sum(rendered: str) -> None:
    results = {each.result for each in sums()}
    cells = {cell for rows in tables() for row in rows for cell in row.values()}
    exact = {7.0}  # days of a week
    exact |= {number(text.replace("−", "")) for text in results} | {
        number(cell) for cell in cells if numbers_in(cell) == [cell]
    }
    said = numbers_in(without_picture(rendered).replace("max\\_duration", ""))
    assert len(said) > 100
    for text in said:
        decimals = places(text)
        matches = (
            text == f"{value:,.{decimals}f}" or (not decimals and text == f"{math.floor(value)}")
            for value in exact
        )
        assert any(matches), text
