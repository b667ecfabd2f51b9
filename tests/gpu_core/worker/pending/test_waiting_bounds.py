"""Cycles under bounds on what waits: who is ended, who goes on waiting, and what each page says."""

from datetime import UTC, datetime, timedelta

import anyio
import pytest
from prefect.settings import PREFECT_LOGGING_TO_API_ENABLED, temporary_settings

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.testing.builders.workloads import make_node, make_policy
from tests.support.pool import FakePrefect, OnePool, run_id


@pytest.fixture(scope="module", autouse=True)
def no_server():
    """What is logged for a run's page would start one."""
    with temporary_settings({PREFECT_LOGGING_TO_API_ENABLED: False}):
        yield


def pool_of(tmp_path, ledger, prefect, **bounds):
    return OnePool(tmp_path, ledger, prefect, [make_node("n1", 1)], make_policy(waiting=bounds))


def test_runs_over_the_bound_fail_with_the_number_and_the_others_wait(tmp_path):
    """Also where the run that starts is one of those that waited."""
    prefect = FakePrefect()
    start = datetime.now(UTC) - timedelta(seconds=30)
    for number in range(1, 31):
        at = start + timedelta(milliseconds=number)
        prefect.submit(number, {}, expected_start_time=at, created=at)

    async def story(ledger):
        pool = pool_of(tmp_path, ledger, prefect, max_runs=3)
        async with pool.scheduling():
            assert await pool.cycle() == {run_id(1)}
            # Twenty in a cycle, the latest first; the others are neither ended nor planned yet.
            states = {number: prefect.runs[run_id(number)].state for number in range(1, 31)}
            assert {n for n, state in states.items() if state.is_failed()} == set(range(11, 31))
            assert states[4].name == "Scheduled"
            assert "WaitingForGpus" in prefect.state(2)
            await pool.cycle()
            assert {n for n in range(1, 31) if prefect.runs[run_id(n)].state.is_failed()} == set(
                range(5, 31)
            )

    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        anyio.run(story, ledger)
    assert prefect.state(30) == (
        "Failed: QueueFull: Refused: the limit of 3 pending runs for "
        "this pool has been reached (`waiting.max_runs`). Please submit the run again once "
        "fewer runs are waiting."
    )


def test_a_stale_run_is_cancelled_unless_it_has_had_an_attempt(tmp_path):
    """Prefect has counted no start of an attempt that ended before its flow started."""
    prefect = FakePrefect()
    long_ago = datetime.now(UTC) - timedelta(hours=2)
    prefect.submit(1, {}, expected_start_time=long_ago)

    async def story(ledger):
        pool = pool_of(tmp_path, ledger, prefect)
        async with pool.scheduling():
            await pool.cycle()
            (attempt,) = ledger.open_attempts(pool.name, pool.infrastructure.host)
            ledger.close_attempt(
                attempt.attempt_id,
                released_at=datetime.now(UTC),
                end_reason=EndReason.CRASHED,
                end_message="its image could not be read",
                exit_code=1,
                is_charged_failure=True,
            )

    async def next_worker(ledger):
        prefect.submit(1, {}, expected_start_time=long_ago)
        prefect.submit(2, {}, expected_start_time=long_ago)
        pool = pool_of(tmp_path, ledger, prefect, expires_after="1h")
        async with pool.scheduling():
            assert await pool.cycle() == {run_id(1)}

    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        anyio.run(story, ledger)
        anyio.run(next_worker, ledger)
    assert prefect.state(2).startswith(
        "Cancelled: Expired: Exceeded the maximum waiting time of 1h 00m "
    )
