"""Whose budget is watched, who hears of it, and who is stopped."""

import logging
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from prefect.settings import PREFECT_LOGGING_TO_API_ENABLED, temporary_settings

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.requests.runs.run_workload import RunLimits
from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.testing.builders.attempts import at, make_attempt, make_run, record_ended
from gpu_core.testing.builders.workloads import make_policy, make_workload
from gpu_core.worker.attempts.registry import AttemptRegistry
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.watch.budgets import BudgetWatch

USD = 1_000_000


@pytest.fixture(scope="module", autouse=True)
def _logs_stay_here():
    """A warning of a run's budget goes to the run's log, and there is no server that keeps it."""
    with temporary_settings({PREFECT_LOGGING_TO_API_ENABLED: False}):
        yield


@pytest.fixture
def ledger(tmp_path):
    """A ledger with an earlier attempt that cost 2 USD."""
    earlier = make_attempt(admitted_at=at(-3), released_at=at(-1), end_reason=EndReason.PREEMPTED)
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as opened:
        record_ended(opened, earlier)
        yield opened


def running(budget_usd=5, **fields):
    """On 1 USD an hour since noon."""
    attempt = replace(make_attempt(number=2, started_at=at(0)), **fields)
    budget = None if budget_usd is None else budget_usd * USD
    return AttemptState(
        attempt=attempt,
        record=make_run(),
        workload=make_workload("run-1", budget_micro_usd=budget),
        request=GpuRequest(),
        limits=RunLimits(max_duration_s=None, max_failures=3, max_interruptions=None),
        run_dir=Path("unused"),
    )


def stopped(ledger, taken, hours, **capacity):
    """Who is stopped at each of these hours after noon."""
    attempts = AttemptRegistry("gpus", "host-1", Path("unused"), ledger)
    attempts._open[taken.attempt.attempt_id] = taken
    watch, policy = BudgetWatch(ledger, attempts), make_policy(capacity=capacity)
    return [bool(anyio.run(watch.overspent, policy, at(hour))) for hour in hours]


def test_it_is_warned_once_and_then_stopped(ledger, caplog):
    """At 80% of what all its attempts may cost, and before the next look would overspend."""
    with caplog.at_level(logging.WARNING, "prefect.flow_runs.gpu"):
        assert stopped(ledger, running(), [1.9, 2, 2.5, 2.99]) == [False, False, False, True]
    warned = [record.getMessage() for record in caplog.records]
    assert warned == [
        "Budget: $4.00 of the run budget of $5.00 has been spent, and $0.0250 would be added "
        "before the run can be stopped at the next poll"
    ]


def test_the_policy_may_let_it_go_on(ledger, caplog):
    """It hears of it twice: at the mark and at the end."""
    with caplog.at_level(logging.WARNING, "prefect.flow_runs.gpu"):
        found = stopped(ledger, running(), [2, 2.5, 2.99, 4], at_budget="continue")
    assert found == [False] * 4
    assert len(caplog.records) == 2


@pytest.mark.parametrize(
    "taken",
    [
        pytest.param(running(None), id="no budget"),
        pytest.param(running(started_at=None), id="it has not begun"),
        pytest.param(running(drain_requested_at=at(1)), id="it ends already"),
    ],
)
def test_who_is_not_watched(ledger, taken):
    assert stopped(ledger, taken, [9]) == [False]
