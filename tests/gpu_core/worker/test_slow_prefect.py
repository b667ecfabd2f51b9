"""Cycles go on with what a slow Prefect server said last, and no run starts twice."""

import copy
from dataclasses import replace

import anyio
import pytest
from prefect.settings import PREFECT_LOGGING_TO_API_ENABLED, temporary_settings
from prefect.states import Cancelling, Completed

import gpu_core.worker.attempts.terminator as terminator
from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.testing.builders.workloads import make_node
from tests.support.pool import FakePrefect, OnePool, run_id


@pytest.fixture(scope="module", autouse=True)
def no_server():
    """What is logged for a run's page would start one."""
    with temporary_settings({PREFECT_LOGGING_TO_API_ENABLED: False}):
        yield


def with_pool(tmp_path, prefect, nodes, story, patience_s=0.0):
    async def main(ledger):
        pool = OnePool(tmp_path, ledger, prefect, nodes, patience_s=patience_s)
        async with pool.scheduling():
            return await story(pool)

    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        return anyio.run(main, ledger)


async def until(condition):
    """Let the other tasks run until this holds."""
    with anyio.fail_after(600):
        while not condition():
            await anyio.lowlevel.checkpoint()


def test_runs_that_end_at_once_start_once_each_on_readings_that_are_behind(tmp_path):
    """A reading of the queue from before a run's start and end still has the run in it."""
    prefect, runs = FakePrefect(), [run_id(number) for number in range(6)]
    for number in range(6):
        prefect.submit(number, {})

    async def story(pool):
        started, cycles = [], 0
        while len(started) < len(runs) or pool.scheduler._attempts.holding():
            cycles += 1
            for run in await pool.cycle():
                started.append(run)
                assert started.count(run) == 1
                running = pool.scheduler._attempts.of_run(str(run))
                await prefect.set_flow_run_state(run, Completed())
                pool.infrastructure.ended.add(running.attempt.attempt_id)
                pool.scheduler.settler.find_ended(set())
                await until(lambda: not pool.scheduler._attempts.holding())
        for _ in range(5):
            assert await pool.cycle() == set()
        return started

    started = with_pool(tmp_path, prefect, [make_node("n1", gpus=1)], story)
    assert sorted(started) == runs


def test_a_run_that_is_refused_is_refused_once_on_readings_that_are_behind(tmp_path, monkeypatch):
    prefect = FakePrefect()
    prefect.submit(1, {"gpu_count": -1})
    written = []
    write = prefect.set_flow_run_state

    async def counted(flow_run_id, state, **options):
        written.append(state.name)
        return await write(flow_run_id, state, **options)

    async def story(pool):
        await pool.scheduler._queue.newest()
        monkeypatch.setattr(prefect, "set_flow_run_state", counted)
        for _ in range(4):
            await pool.cycle()

    with_pool(tmp_path, prefect, [make_node("n1")], story)
    assert written == ["Failed"]


@pytest.mark.parametrize("others", [0, 250])
@pytest.mark.parametrize("is_deleted", [False, True], ids=["cancelled", "deleted"])
def test_what_a_person_cancels_or_deletes_is_found_among_many(
    tmp_path, monkeypatch, others, is_deleted
):
    """While nothing is cancelled the runs are counted, which costs the server little."""
    monkeypatch.setattr(terminator, "_CANCEL_POLL_S", 0.0)
    prefect = FakePrefect()
    for number in range(others + 1):
        prefect.submit(number, {})
    read = []
    read_flow_runs = prefect.read_flow_runs

    async def counted(**options):
        found = await read_flow_runs(**options)
        read.extend(found)
        return found

    async def story(pool):
        await pool.cycle()
        running = pool.scheduler._attempts.of_run(str(run_id(0)))
        for each in pool.scheduler._attempts:
            each.attempt = replace(each.attempt, started_at=each.attempt.admitted_at)
        monkeypatch.setattr(prefect, "read_flow_runs", counted)
        await pool.scheduler.terminator.stop_cancelled(running.attempt.admitted_at)
        assert read == []
        if is_deleted:
            del prefect.runs[run_id(0)]
        else:
            await prefect.set_flow_run_state(run_id(0), Cancelling())
        await pool.scheduler.terminator.stop_cancelled(running.attempt.admitted_at)
        ending = [each for each in pool.scheduler._attempts if each.drain_reason is not None]
        assert ending == [running]
        assert running.drain_reason is EndReason.CANCELLED
        assert is_deleted or [run.id for run in read] == [run_id(0)]

    with_pool(tmp_path, prefect, [make_node("n1", gpus=others + 1)], story, patience_s=600)


def test_another_attempt_of_a_run_is_not_stopped_for_what_was_read_before_it(tmp_path, monkeypatch):
    """A person cancels a run, and retries it while Prefect is slow to say so."""
    monkeypatch.setattr(terminator, "_CANCEL_POLL_S", 0.0)
    prefect = FakePrefect()
    prefect.submit(0, {})

    async def story(pool):
        await pool.cycle()
        attempts = pool.scheduler._attempts
        running = attempts.of_run(str(run_id(0)))
        running.attempt = replace(running.attempt, started_at=running.attempt.admitted_at)
        await prefect.set_flow_run_state(run_id(0), Cancelling())
        answer = await pool.scheduler.terminator._out_of_course()
        earlier = copy.copy(running)
        for each, is_stopped in ((earlier, False), (running, True)):

            async def newest(each=each):
                return [(each, answer[0][1])]

            monkeypatch.setattr(pool.scheduler.terminator._states, "newest", newest)
            await pool.scheduler.terminator.stop_cancelled(running.attempt.admitted_at)
            assert (running.drain_reason is EndReason.CANCELLED) is is_stopped

    with_pool(tmp_path, prefect, [make_node("n1")], story, patience_s=600)
