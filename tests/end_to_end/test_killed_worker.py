"""Kill -9 of the worker at any moment: no run is lost, none runs twice, the ledger is complete."""

import os
import random
import signal
import time

import pytest

from gpu_core.decisions.model.attempts import EndReason
from tests.end_to_end.conftest import FLOWS
from tests.support.waiting import wait_for

RUNS = 16

SEEDS = int(os.environ.get("PREFECT_GPU_CHAOS_SEEDS", "1"))
"""How many stories of random kills run; `make chaos` runs more."""


def test_runs_outlive_their_worker_and_the_next_one_takes_them_over(pool, journal):
    """A run goes on without a worker; the next worker closes its attempt with its true end."""
    deployment = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(seconds=4))
    run = pool.submit(deployment, "survivor", gpu_count=8)
    pool.start_worker()
    pool.wait_until(run, "Running")

    pool.kill_worker()
    pool.wait_until(run, "Completed")
    ended_at = journal.entries("end")[0]["at"]
    waiting = pool.submit(deployment, "next", gpu_count=8)
    pool.start_worker()
    pool.wait_until(waiting, "Completed")

    (attempt,) = pool.attempts(run)
    assert attempt.end_reason is EndReason.COMPLETED
    assert abs(attempt.released_at.timestamp() - ended_at) < 2
    assert not attempt.is_end_estimated


def test_a_preemption_that_a_killed_worker_began_is_finished_by_the_next(pool, journal):
    """The victim goes back in line, the preemptor runs, and each of them once at a time."""
    deployment = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(seconds=3))
    low = pool.submit(deployment, "low", gpu_count=8, gpu_priority="low")
    pool.start_worker()
    pool.wait_until(low, "Running")
    urgent = pool.submit(deployment, "urgent", gpu_count=8, gpu_priority="critical")
    wait_for(lambda: pool.attempts(low)[0].drain_requested_at, "the preemption began")

    pool.kill_worker()
    pool.start_worker()

    pool.wait_until(urgent, "Completed")
    pool.wait_until(low, "Completed")
    assert_each_ran_once_at_a_time(journal)
    wait_for(lambda: all(a.released_at for a in pool.attempts(low)), "every attempt is closed")
    assert pool.attempts(low)[-1].end_reason is EndReason.COMPLETED


# Prefect's SQLite server may stand still for up to 60 s when a client was killed in the middle of a
# request: its connections wait that long for the lock (their busy timeout). On SQLite the worker is
# therefore killed once only, and every deadline has room for such a stall.
STALL_S = 60


@pytest.mark.parametrize(
    ("server", "seed", "kills", "deadline_s"),
    [
        *(
            pytest.param(
                *("prefect_on_postgresql", seed, 5, 60),
                id=f"on PostgreSQL, seed {seed}",
                marks=pytest.mark.postgresql,
            )
            for seed in range(1, 1 + SEEDS)
        ),
        pytest.param("prefect_on_sqlite", 0, 1, 60 + STALL_S, id="on SQLite, seed 0"),
    ],
    indirect=["server"],
)
def test_whenever_the_worker_is_killed_every_run_completes_exactly_once(
    pool, journal, seed, kills, deadline_s
):
    """Sixteen runs, and a worker that is killed at random moments until all of them are done."""
    moments = random.Random(seed)
    deployment = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(seconds=0.2))
    runs = [
        pool.submit(deployment, f"run-{number}", gpu_count=moments.choice([1, 2, 4]))
        for number in range(RUNS)
    ]

    for _ in range(kills):
        worker = pool.start_worker()
        wait_for(lambda w=worker: "started" in w.log.read_text(), "the worker started", deadline_s)
        time.sleep(moments.uniform(0.0, 1.5))  # the moment of death is the point of this test
        pool.kill_worker()
    pool.start_worker()

    wait_for(lambda: pool.count(runs, "Completed") == RUNS, "every run completed", deadline_s)
    wait_for(
        lambda: all(a.released_at for run in runs for a in pool.attempts(run)),
        "every attempt is closed",
        deadline_s,
    )
    assert_each_ran_once_at_a_time(journal)
    ended = [entry["run"] for entry in journal.entries("end")]
    assert sorted(ended) == sorted(runs)
    for run in runs:
        attempts = pool.attempts(run)
        assert [a.number for a in attempts] == list(range(1, len(attempts) + 1))
        assert attempts[-1].end_reason is EndReason.COMPLETED
        assert all(a.started_at is not None for a in attempts)


def test_a_second_worker_stands_by_and_takes_over(pool, journal):
    """Two workers for one pool: one acts; when it dies the other one goes on."""
    deployment = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(seconds=1))
    first = pool.start_worker()
    pool.wait_until(pool.submit(deployment, "first"), "Completed")
    second = pool.start_worker()
    wait_for(lambda: "on standby" in second.log.read_text(), "the second worker is on standby")

    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    run = pool.submit(deployment, "after")

    pool.wait_until(run, "Completed")
    assert_each_ran_once_at_a_time(journal)


def assert_each_ran_once_at_a_time(journal) -> None:
    """No run started while another attempt of it, or a run on the same GPU, had not ended."""
    open_attempts: dict[str, list[str]] = {}
    for entry in sorted(journal.entries(), key=lambda entry: entry["at"]):
        run = entry["run"]
        if entry["what"] != "begin":
            open_attempts.pop(run, None)
            continue
        taken = {d for devices in open_attempts.values() for d in devices}
        assert not taken & set(entry["devices"]), f"a GPU is used twice: {entry}"
        assert run not in open_attempts, f"runs twice: {entry}"
        open_attempts[run] = entry["devices"]
