"""The generated history is the same every time, and says everywhere that it is generated."""

from datetime import date

import pytest

from gpu_core.decisions.costs.reports.demo_history import generated_history
from gpu_core.decisions.model.attempts import Provenance
from gpu_core.decisions.model.errors import InvalidInput

LAST = date(2026, 3, 4)


def test_a_longer_history_contains_the_shorter_one() -> None:
    short, long = generated_history(5, LAST), generated_history(12, LAST)
    assert set(short) <= set(long)
    ids = [run.flow_run_id for run, _ in long]
    assert len(set(ids)) == len(ids)


def test_another_seed_gives_another_history() -> None:
    ids = {run.flow_run_id for run, _ in generated_history(3, LAST)}
    assert ids.isdisjoint(run.flow_run_id for run, _ in generated_history(3, LAST, seed=2))


def test_everything_says_that_it_is_generated() -> None:
    for run, attempts in generated_history(9, LAST):
        assert run.provenance is Provenance.GENERATED
        for name in (run.name, run.team, run.project, run.deployment, run.pool, run.user):
            assert name is not None
            assert "generated" in name
        assert {attempt.host for attempt in attempts} == {"generated"}


def test_weekends_are_quieter_and_three_teams_work() -> None:
    history = generated_history(14, LAST)
    per_day: dict[date, int] = {}
    for run, _ in history:
        day = run.submitted_at.date()
        per_day[day] = per_day.get(day, 0) + 1
    weekend = [count for day, count in per_day.items() if day.weekday() >= 5]
    weekdays = [count for day, count in per_day.items() if day.weekday() < 5]
    assert max(weekend) < min(weekdays)
    assert len({run.team for run, _ in history}) == 3


@pytest.mark.parametrize("days", [0, 367])
def test_too_many_or_no_days_are_refused(days: int) -> None:
    with pytest.raises(InvalidInput, match="days is out of range"):
        generated_history(days, LAST)
