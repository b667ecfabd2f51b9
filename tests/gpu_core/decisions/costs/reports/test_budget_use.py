"""What budgets have used, as the nightly report lists it."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.budget_use import read_budget_uses
from gpu_core.decisions.costs.reports.budget_use import budgets_section
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.policy.policy import parse_policy
from gpu_core.decisions.quota.usage_tracker import budget_uses
from gpu_core.testing.builders.attempts import at, make_attempt, make_run

MONTH = {"name": "vision", "scope": "team", "of": "vision", "period": "month", "usd": 31}
DAY = {"name": "pool-day", "scope": "pool", "period": "day", "gpu_hours": 4}
POLICY = parse_policy({"version": 1, "budgets": [MONTH, DAY]})

BEFORE = make_attempt("a", admitted_at=at(-24), released_at=at(-22), end_reason=EndReason.COMPLETED)
TODAY = make_attempt("b", admitted_at=at(1), released_at=at(3), end_reason=EndReason.COMPLETED)
OPEN = make_attempt("c", admitted_at=at(5))
RECORDS = [
    (make_run("a"), (BEFORE,)),
    (make_run("b", team="audio"), (TODAY,)),
    (make_run("c"), (OPEN,)),
]


@pytest.mark.parametrize(
    ("hours", "want"),
    [
        pytest.param(2, {"vision": 2_000_000, "pool-day": 3_600}, id="within the day"),
        pytest.param(7, {"vision": 4_000_000, "pool-day": 4 * 3_600}, id="one still runs"),
    ],
)
def test_what_came_later_does_not_count(hours: float, want: dict[str, int]) -> None:
    found = budget_uses(POLICY, RECORDS, at(hours))
    assert {each.policy.name: each.used for each in found} == want


def test_the_forecast_is_at_the_mean_rate() -> None:
    """Half of the fourth day of March: $2 in 3.5 days are $17.71 in 31."""
    vision, pool = budget_uses(POLICY, RECORDS, at(0))
    assert vision.forecast == round(2_000_000 * 31 / 3.5)
    assert (pool.used, pool.forecast) == (0, 0)
    just_begun = budget_uses(POLICY, RECORDS, at(12) + timedelta(minutes=1))
    assert just_begun[1].forecast is None


def test_the_section_has_the_most_used_first() -> None:
    (section,) = budgets_section(budget_uses(POLICY, RECORDS, at(7)))
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    assert rows[0] == "| Budget | Used | At its end | Limit | Ends |"
    assert rows[2].startswith("| pool-day | 4.0")
    assert rows[3].startswith("| vision | $4.00 | $")
    assert rows[3].endswith(" | $31.00 | 2026-04-01 |")
    assert budgets_section(()) == []


def test_the_ledger_is_asked_from_the_beginning_of_the_longest_period(tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path}/ledger.db") as ledger:
        ledger.import_records(RECORDS)
        found = read_budget_uses(ledger, POLICY, at(7), None)
        none = read_budget_uses(ledger, parse_policy({"version": 1}), at(7), None)
    assert [each.used for each in found] == [4_000_000, 4 * 3_600]
    assert none == ()


@pytest.mark.parametrize(
    ("pool", "want"),
    [
        pytest.param("gpus", 4, id="the policy's pool, as its worker counts"),
        pytest.param("cpu", 6, id="a pool without runs, in which only this report runs"),
        pytest.param(None, 6, id="no pool is known"),
    ],
)
def test_the_runs_of_other_pools_are_not_in_a_pools_budgets(
    tmp_path: Path, pool: str | None, want: int
) -> None:
    other = make_run("d", pool="other"), (replace(TODAY, attempt_id="d/1", flow_run_id="d"),)
    with Ledger.open(f"sqlite:///{tmp_path}/ledger.db") as ledger:
        ledger.import_records([*RECORDS, other])
        _, pool_day = read_budget_uses(ledger, POLICY, at(7), None, pool)
    assert pool_day.used == want * 3_600
