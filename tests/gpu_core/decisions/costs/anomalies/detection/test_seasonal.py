"""A day is judged in total and by its parts, with a sentence that says how unusual it is."""

from collections.abc import Sequence
from datetime import date, timedelta

import pytest

from gpu_core.decisions.costs.anomalies.detection.detector import AnomalyKind
from gpu_core.decisions.costs.anomalies.detection.judgment import (
    AnomalyVerdict,
    Judgment,
    describe_change,
)
from gpu_core.decisions.costs.anomalies.detection.known import Known
from gpu_core.decisions.costs.anomalies.detection.planned import PlannedActivity
from gpu_core.decisions.costs.anomalies.detection.seasonal import judge_by_season
from gpu_core.decisions.costs.reports.demo_history import ANOMALY_NAME, generated_history
from gpu_core.decisions.costs.usage.usage_cost import Window, daily_costs
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.policy.policy import parse_policy
from tests.gpu_core.decisions.costs.anomalies.builders import history_of, spending

DAY = date(2026, 3, 4)  # a Wednesday
STEADY = [40.0] * 60


def judge(day: date = DAY, **usd_of: Sequence[float]) -> dict[str, Judgment]:
    """The judgments by scope, of what teams spent up to this day."""
    return {j.scope: j for j in judge_by_season(day, spending(day, usd_of), {})}


def test_a_spike_is_one_sentence_with_what_was_expected() -> None:
    got = judge(vision=[*STEADY, 55.0])["total"]
    assert got.summary == (
        "Daily cost spike: expected $40, actual $55 (37% over); "
        "6.2 standard deviations above the expected cost"
    )
    assert (got.kind, got.since, got.is_new) == (AnomalyKind.SPIKE, DAY, True)


def test_every_part_that_is_unusual_is_named_and_only_those() -> None:
    got = judge(vision=[*STEADY, 90.0], speech=[*STEADY, 41.0])
    assert {scope for scope, j in got.items() if j.is_anomaly} == {
        "total", "team vision", "project vision", "deployment vision/gpu", "GPU type a10g",
    }  # fmt: skip
    assert got["team speech"].verdict is AnomalyVerdict.USUAL
    assert "deployment speech/gpu" not in got


def test_one_team_hides_another_in_the_total_and_is_found_all_the_same() -> None:
    got = judge(vision=[*STEADY, 80.0], speech=[*STEADY, 0.0])
    assert got["total"].verdict is AnomalyVerdict.USUAL
    assert (got["team vision"].kind, got["team speech"].kind) == (
        AnomalyKind.SPIKE,
        AnomalyKind.DROP,
    )


def test_the_second_day_of_an_anomaly_is_not_new_and_says_since_when() -> None:
    got = judge(vision=[*STEADY, 90.0, 90.0])["total"]
    assert (got.since, got.is_new) == (DAY - timedelta(days=1), False)
    assert got.summary.endswith("since 2026-03-03 (2 days)")


def test_a_team_that_works_now_and_then_is_compared_with_its_days_of_work() -> None:
    now_and_then = [50.0 if n % 5 == 0 else 0.0 for n in range(150)]
    assert judge(vision=[*now_and_then, 55.0])["team vision"].verdict is AnomalyVerdict.USUAL
    assert judge(vision=[*now_and_then, 0.0])["team vision"].verdict is AnomalyVerdict.USUAL
    assert judge(vision=[*now_and_then, 150.0])["team vision"].kind is AnomalyKind.SPIKE


def new_team(*usd: float, peers: int = 2) -> Judgment:
    """A team that started a few days ago, next to teams of $40 a day."""
    others = {f"peer{n}": [*STEADY[len(usd) :], *[40.0] * len(usd)] for n in range(peers)}
    return judge(new=[*[0.0] * (60 - len(usd)), *usd], **others)["team new"]


@pytest.mark.parametrize(
    ("usd", "peers", "want"),
    [
        pytest.param(80.0, 2, AnomalyVerdict.NOT_ENOUGH_HISTORY, id="twice the peers' usual day"),
        pytest.param(81.0, 2, AnomalyVerdict.ANOMALY, id="more than that"),
        pytest.param(9999.0, 1, AnomalyVerdict.NOT_ENOUGH_HISTORY, id="one peer proves nothing"),
    ],
)
def test_a_team_without_a_history_is_judged_by_its_peers(
    usd: float, peers: int, want: AnomalyVerdict
) -> None:
    assert new_team(usd, peers=peers).verdict is want


def test_a_new_team_says_what_its_peers_cost_and_is_new_once() -> None:
    first, second = new_team(100.0), new_team(100.0, 100.0)
    assert first.summary == (
        "Daily cost of new team new: actual $100; the most expensive of 2 peers typically costs $40"
    )
    assert (first.is_new, second.is_new, second.since) == (True, False, DAY - timedelta(days=1))


def test_a_new_team_with_a_budget_is_judged_by_that() -> None:
    history = spending(DAY, {"new": [0.0] * 59 + [100.0]})
    found = judge_by_season(DAY, history, {}, Known(budgets_micro_usd_per_day={"new": 30_000_000}))
    (got,) = [j for j in found if j.scope == "team new"]
    assert got.summary == "Daily cost of new team new: actual $100; its budget allows $30 a day"


def planned(team: str | None, **usd_of: Sequence[float]) -> dict[str, AnomalyVerdict]:
    """The verdicts of a day that was announced."""
    activity = PlannedActivity(name="new model", first_day=DAY, last_day=DAY, team=team)
    found = judge_by_season(DAY, spending(DAY, usd_of), {}, Known(planned=[activity]))
    return {j.scope: j.verdict for j in found}


def test_planned_activity_of_a_team_is_not_judged_and_other_teams_are() -> None:
    got = planned("vision", vision=[*STEADY, 400.0], speech=[*STEADY, 400.0])
    assert got["total"] is got["team vision"] is AnomalyVerdict.PLANNED
    assert got["team speech"] is AnomalyVerdict.ANOMALY
    everyone = planned(None, vision=[*STEADY, 400.0], speech=[*STEADY, 400.0])
    assert set(everyone.values()) == {AnomalyVerdict.PLANNED}


def test_planned_activity_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"planned\.last_day is before the first day"):
        PlannedActivity(name="x", first_day=DAY, last_day=DAY - timedelta(days=1))


@pytest.mark.parametrize("days", [0, 1, 20])
def test_a_short_history_says_how_many_days_are_missing(days: int) -> None:
    got = judge(vision=[*[40.0] * days, 4000.0])["total"]
    assert got.verdict is AnomalyVerdict.NOT_ENOUGH_HISTORY
    assert f"({days + 1} of 21 days available)" in got.summary


def test_nothing_at_all_is_usual() -> None:
    got = judge(vision=[0.0] * 40)
    assert [(j.scope, j.verdict, j.summary) for j in got.values()] == [
        ("total", AnomalyVerdict.USUAL, "total: no cost")
    ]


def test_only_the_anomaly_stands_out_in_the_total_of_the_generated_history() -> None:
    last = DAY
    dear_day = last - timedelta(days=3)
    records = generated_history(42, last, anomaly_on=dear_day)
    now = Window.of_day(last).end
    found = {}
    for back in range(8):
        day = last - timedelta(days=back)
        window = Window(Window.of_day(day - timedelta(days=7)).start, Window.of_day(day).end)
        costs = daily_costs(records, window, now)
        found[day] = judge_by_season(day, history_of(records, day, now), costs)[0]
    assert [day for day, judgment in found.items() if judgment.is_anomaly] == [dear_day]
    assert found[dear_day].causes[0].run.name == ANOMALY_NAME


@pytest.mark.parametrize(
    ("cost", "expected", "want"),
    [
        pytest.param(55, 40, "37% over", id="over, whole percents"),
        pytest.param(10, 40, "75% under", id="under"),
        pytest.param(1000, 999, "as expected", id="less than a percent"),
        pytest.param(0, 0, "as expected", id="nothing, as expected"),
        pytest.param(5, 0, "no cost was expected", id="no percentage of nothing"),
        pytest.param(0, 5, "100% under", id="no cost"),
    ],
)
def test_a_change_in_words(cost: int, expected: int, want: str) -> None:
    assert describe_change(cost, expected) == want


def test_the_policy_says_what_is_planned_and_what_a_new_team_may_cost() -> None:
    data = {
        "version": 1,
        "calendar": {"planned": [{"name": "holidays", "first_day": "2026-12-24",
                                  "last_day": "2026-12-26", "team": "vision"}]},
        "budgets": [
            {"name": "a", "scope": "team", "of": "vision", "period": "week", "usd": 70},
            {"name": "b", "scope": "team", "of": "vision", "period": "day", "usd": 20},
            {"name": "c", "scope": "team", "of": "audio", "period": "month", "gpu_hours": 9},
            {"name": "d", "scope": "project", "of": "vision", "period": "day", "usd": 1},
        ],
    }  # fmt: skip
    known = Known.by(parse_policy(data))
    assert [(a.name, a.team, (a.last_day - a.first_day).days) for a in known.planned] == [
        ("holidays", "vision", 2)
    ]
    assert known.budgets_micro_usd_per_day == {"vision": 10_000_000}


@pytest.mark.parametrize(
    ("first_day", "last_day", "want"),
    [
        pytest.param(
            "2026-12-24", "2026-12-23", "calendar.planned.0.last_day is before the first day",
            id="it ends before it begins",
        ),
        pytest.param("24.12.", "2026-12-24", "first_day is not a day", id="no date"),
    ],
)  # fmt: skip
def test_planned_days_that_cannot_be_are_refused(first_day: str, last_day: str, want: str) -> None:
    rule = {"name": "x", "first_day": first_day, "last_day": last_day}
    with pytest.raises(InvalidInput, match=want):
        parse_policy({"version": 1, "calendar": {"planned": [rule]}})
