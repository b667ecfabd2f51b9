"""People hear of a budget at its warning mark and at its limit, once in each period."""

from datetime import UTC, datetime

import pytest

from gpu_core.decisions.model.cluster import PastUsage
from gpu_core.decisions.policy.policy import parse_policy
from gpu_core.decisions.quota.budget_alerts import AlertMark, due_alerts

MIDDLE = datetime(2026, 4, 16, tzinfo=UTC)
APRIL = datetime(2026, 4, 1, tzinfo=UTC)
MONTH = {"name": "vision", "scope": "team", "of": "vision", "period": "month", "usd": 100}


def alerts(used_usd, sent=(), now=MIDDLE, **budget):
    policy = parse_policy({"version": 1, "budgets": [MONTH | budget]})
    usage = PastUsage(micro_usd_by_budget={"vision": round(used_usd * 1_000_000)})
    return list(due_alerts(policy, usage, frozenset(sent), now))


def mark(percent, start=APRIL):
    return AlertMark("vision", start, percent)


@pytest.mark.parametrize(
    ("usd", "sent", "want"),
    [
        pytest.param(79.999999, (), [], id="under the mark"),
        pytest.param(80, (), [(mark(80),)], id="at the mark"),
        pytest.param(99, (mark(80),), [], id="over it, and reported"),
        pytest.param(100, (mark(80),), [(mark(100),)], id="at the limit"),
        pytest.param(140, (), [(mark(80), mark(100))], id="over both at once: one message"),
        pytest.param(140, (mark(80), mark(100)), [], id="both reported"),
        pytest.param(
            90, (mark(80, datetime(2026, 3, 1, tzinfo=UTC)),), [(mark(80),)],
            id="reported in the last period",
        ),
    ],
)  # fmt: skip
def test_each_mark_is_reported_once_in_a_period(usd, sent, want):
    assert [alert.marks for alert in alerts(usd, sent)] == want


def test_the_message_has_the_numbers_the_forecast_and_what_follows():
    (alert,) = alerts(100)
    assert alert.subject == "Budget vision: 100% used"
    assert alert.body == (
        "Team vision has used $100.00 of $100.00 in this month, which ends 2026-05-01 00:00 "
        "UTC. At the current rate, the usage will reach $200.00 (200%). New runs in this "
        "budget are not started until the period ends."
    )
    (soft,) = alerts(100, mode="soft")
    assert soft.body.endswith("Runs can still start because the budget is soft.")


def test_a_period_that_has_just_begun_has_no_forecast():
    (alert,) = alerts(90, now=datetime(2026, 4, 1, 1, tzinfo=UTC))
    assert alert.forecast is None
    assert "At the current rate" not in alert.body


def test_the_policys_own_mark_and_an_empty_budget():
    assert [a.marks for a in alerts(50, warn_at=0.5)] == [(mark(50),)]
    assert alerts(82.499999, warn_at=0.825) == [], "a part of a percent counts"
    assert [a.marks for a in alerts(82.5, warn_at=0.825)] == [(mark(82),)]
    assert alerts(0, usd=0) == []
    assert [a.marks for a in alerts(1, usd=0)] == [(mark(80), mark(100))]


@pytest.mark.parametrize(
    ("budget", "want"),
    [
        pytest.param(
            {"mode": "stop"},
            "Active runs save a checkpoint and stop, resuming after the period ends. New "
            "runs are not started until then.",
            id="stop",
        ),
        pytest.param(
            {"mode": "stop", "queues": {"critical": "soft", "low": "stop"}},
            "New runs are not started until then. Runs in queue critical are not affected.",
            id="a queue that may continue is named",
        ),
        pytest.param(
            {"mode": "soft", "queues": {"low": "stop", "medium": "hard"}},
            "the budget is soft. Active runs in queue low save a checkpoint and stop. Active "
            "runs in queue "
            "medium continue, but no new runs are started.",
            id="queues that may not",
        ),
    ],
)
def test_the_message_says_what_follows_for_which_queue(budget, want):
    (alert,) = alerts(100, **budget)
    assert alert.body.endswith(want)


def test_a_budget_that_has_stopped_its_runs_is_reported_as_at_its_limit():
    """It stops them a little before."""
    policy = parse_policy({"version": 1, "budgets": [MONTH | {"mode": "stop"}]})
    usage = PastUsage(micro_usd_by_budget={"vision": 99_000_000})
    assert [a.marks for a in due_alerts(policy, usage, {mark(80)}, MIDDLE)] == []
    (alert,) = due_alerts(policy, usage, {mark(80)}, MIDDLE, stopped={"vision"})
    assert (alert.marks, alert.subject) == ((mark(100),), "Budget vision: 99% used")
    assert "Active runs save a checkpoint and stop" in alert.body
