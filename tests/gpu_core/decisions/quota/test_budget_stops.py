"""A budget that stops runs: in time, only its own, and not the queues that may continue."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.costs.usage.usage import sum_usage
from gpu_core.decisions.costs.usage.usage_cost import usage_until
from gpu_core.decisions.model.cluster import PastUsage
from gpu_core.decisions.quota.budget_stops import due_stops
from gpu_core.decisions.quota.budgets import POLL_S, Budgets
from gpu_core.testing.builders.attempts import make_attempt, make_run
from gpu_core.testing.builders.workloads import make_policy, make_workload

NOW = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)
USD = 1_000_000
PRICE = 3600 * USD
STOP = {"name": "b", "scope": "team", "of": "vision", "period": "day", "usd": 100, "mode": "stop"}


def running(number, gpus=1, price=PRICE, since=NOW, **run):
    """A run that costs a dollar a second for each GPU."""
    record = make_run(flow_run_id=f"run {number}", **{"team": "vision", "queue": "medium", **run})
    attempt = make_attempt(
        record.flow_run_id,
        attempt_id=str(number),
        gpu_ids=tuple(str(i) for i in range(gpus)),
        admitted_at=since,
        price_micro_usd_per_gpu_hour=price,
    )
    return record, attempt


def stopped(budget, used_usd, *runs, grace_s=10):
    policy = make_policy(budgets=[STOP | budget])
    usage = PastUsage(micro_usd_by_budget={"b": round(used_usd * USD)})
    return [stop.attempt_id for stop in due_stops(policy.budgets, usage, runs, grace_s, NOW)]


CRITICAL = running(2, queue="critical")


@pytest.mark.parametrize(
    ("budget", "used_usd", "runs", "want"),
    [
        pytest.param({}, 30, [running(1)], [], id="a minute and the grace just fit"),
        pytest.param({}, 30.000001, [running(1)], ["1"], id="they fit no longer"),
        pytest.param({"mode": "hard"}, 99, [running(1)], [], id="a hard budget stops none"),
        pytest.param({"mode": "soft"}, 200, [running(1)], [], id="a soft one neither"),
        pytest.param({}, 99, [running(1, team="speech")], [], id="a run of another team"),
        pytest.param({}, 0, [running(1), CRITICAL], ["1", "2"], id="two at once"),
        pytest.param(
            {"queues": {"critical": "soft"}},
            0,
            [running(1), CRITICAL],
            ["1"],
            id="a critical run continues, and counts",
        ),
        pytest.param(
            {"mode": "soft", "queues": {"critical": "stop"}},
            99,
            [running(1), CRITICAL],
            ["2"],
            id="one queue stops",
        ),
        pytest.param(
            {"scope": "deployment", "of": "train/a"},
            99,
            [running(1, deployment="train/a"), running(2, deployment="train/b")],
            ["1"],
            id="of one deployment",
        ),
        pytest.param(
            {"scope": "pool", "of": None}, 99, [running(1, team=None)], ["1"], id="the pool's"
        ),
        pytest.param({}, 99, [running(1, price=None)], [], id="what has no price adds none"),
        pytest.param({}, 101, [running(1, price=None)], ["1"], id="but used up is used up"),
        pytest.param({"usd": 0}, 0, [running(1)], ["1"], id="a budget of nothing"),
    ],
)
def test_which_runs_stop(budget, used_usd, runs, want):
    assert stopped(budget, used_usd, *runs) == want


@pytest.mark.parametrize(("used_s", "want"), [(2, []), (3, ["1"])])
def test_gpu_hours_stop_too(used_s, want):
    """A GPU uses 70 s until it has saved; the budget is 72 s."""
    budget = {key: value for key, value in STOP.items() if key != "usd"} | {"gpu_hours": 0.02}
    usage = PastUsage(gpu_s_by_budget={"b": used_s})
    found = due_stops(make_policy(budgets=[budget]).budgets, usage, [running(1)], 10, NOW)
    assert [stop.attempt_id for stop in found] == want


def test_the_reason_has_the_numbers_and_the_end_of_the_period():
    usage = PastUsage(micro_usd_by_budget={"b": 99 * USD})
    (stop,) = due_stops(make_policy(budgets=[STOP]).budgets, usage, [running(1)], 10, NOW)
    assert stop.reason == (
        "$99.00 of $100.00 of budget b has been used. The run resumes from its latest "
        "checkpoint once the budget allows it. The next period starts at 2026-09-02 00:00 "
        "UTC."
    )


@given(
    asked=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3000)), min_size=1, max_size=4),
    limit_usd=st.integers(1, 2000),
    grace_s=st.integers(0, 300),
    polls_s=st.lists(st.integers(1, POLL_S), min_size=1, max_size=8),
)
def test_a_budget_that_stops_runs_is_never_exceeded(asked, limit_usd, grace_s, polls_s):
    """Runs start as it lets them, run far longer than they say, and take all of their grace."""
    (budget,) = make_policy(budgets=[STOP | {"usd": limit_usd}]).budgets
    numbers, now = count(), NOW
    ended, held = [], []
    for poll_s in polls_s:
        used = sum_usage(usage_until(attempt, now) for _, attempt in (*ended, *held))
        usage = PastUsage(micro_usd_by_budget={"b": used.micro_usd})
        stops = {s.attempt_id for s in due_stops([budget], usage, held, grace_s, now)}
        gone_at = now + timedelta(seconds=grace_s)
        ended += [(r, replace(a, released_at=gone_at)) for r, a in held if a.attempt_id in stops]
        held = [(r, a) for r, a in held if a.attempt_id not in stops]
        budgets = Budgets([budget], usage, grace_s=grace_s)
        for _, attempt in (*held, *(one for one in ended if one[1].released_at > now)):
            budgets.commit(make_workload(team="vision"), attempt.gpu_count, PRICE, 1)
        for gpus, run_s in asked:
            workload = make_workload(team="vision")
            if budgets.refusal(workload, gpus, PRICE, run_s) is None:
                budgets.commit(workload, gpus, PRICE, run_s)
                held.append(running(next(numbers), gpus, since=now))
        now += timedelta(seconds=poll_s)

    end = now + timedelta(seconds=grace_s)
    total = sum_usage(usage_until(attempt, end) for _, attempt in ended)
    total = sum_usage([total, *(usage_until(attempt, now) for _, attempt in held)])
    assert total.micro_usd <= budget.limit
