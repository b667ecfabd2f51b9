"""An outage of the platform ends attempts, and no run is charged for it."""

import os
import sys
import time
from collections.abc import Iterator

import psycopg
import pytest

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.decision_chain import DecisionKind
from tests.end_to_end.conftest import FLOWS, closed, processes_of
from tests.support.cuttable_line import HOST, CuttableLine
from tests.support.postgresql import PostgresqlServer, new_database, stoppable_postgresql
from tests.support.waiting import wait_for

_BACK_S = 120.0
# How long the database is away after the worker was killed; `make chaos` has ten minutes.
_OUTAGE_S = float(os.environ.get("PREFECT_GPU_OUTAGE_S", "0"))

# Without it Prefect's client in the run repeats a request for a minute.
_NO_RETRIES = {"PREFECT_CLIENT_MAX_RETRIES": "0"}


def test_what_the_server_s_absence_ended_is_charged_to_no_run(pool, server, tmp_path):
    """One flow could not begin, as Prefect's API did not answer it; another one failed by it."""
    release = tmp_path / "release"
    # Waits as a slow import does.
    wait = f"until [ -e {release} ]; do sleep 0.05; done"
    engine = f"{sys.executable} -m prefect flow-run execute"
    slow = pool.deploy(f"{FLOWS}:do_nothing", command=f"sh -c '{wait}; exec {engine}'")
    asking = pool.deploy(f"{FLOWS}:ask_prefect_when_released", env=_NO_RETRIES)
    runs = starting, working = (
        pool.submit(slow, "starting", gpu_count=1),
        pool.submit(asking, "working", {"folder": str(tmp_path)}, gpu_count=1),
    )
    pool.start_worker()
    wait_for((tmp_path / "began-1").exists, "the flow works")
    wait_for(
        lambda: all(a and a[0].started_at for a in pool.attempts_of(runs).values()),
        "every start is written down",
    )

    server.stop()
    try:
        seen = "Prefect's API is unavailable"
        wait_for(lambda: seen in pool.worker_log(), "the worker saw the outage")
        release.touch()
        wait_for(lambda: not any(processes_of(run) for run in runs), "every process ended")
    finally:
        server.start()

    for run, want, begun in (
        (starting, EndReason.POSTPONED, 1),
        (working, EndReason.INTERRUPTED, 2),
    ):
        pool.wait_until(run, "Completed", timeout_s=_BACK_S)
        wait_for(lambda run=run: closed(pool, run, 2), "both attempts are closed")
        first, second = pool.attempts(run)
        assert first.end_reason is want, first.end_message
        assert first.end_message.startswith(f"{want}: Prefect's API was unavailable from ")
        assert not first.is_charged_failure
        assert second.end_reason is EndReason.COMPLETED
        assert pool.run(run)["run_count"] == begun


# The ledger hears of a start only when this lock is free.
_HELD_START = """
CREATE FUNCTION wait_for_test() RETURNS trigger LANGUAGE plpgsql AS
  'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NEW; END';
CREATE TRIGGER wait_for_test BEFORE UPDATE OF started_at ON attempts
  FOR EACH ROW EXECUTE FUNCTION wait_for_test();
"""


@pytest.mark.postgresql
def test_a_process_whose_start_the_ledger_did_not_hear_of_goes_on(new_pool, journal, postgresql):
    """The line to the ledger was cut between the start of the process and the note of it."""
    pool, url = new_pool(), new_database(postgresql)
    address, _, rest = url.rpartition(f"{HOST}:")
    port, _, name = rest.partition("/")
    release = journal.path.with_name("release")
    with CuttableLine(int(port)) as line, psycopg.connect(url, autocommit=True) as held:
        pool.ledger_url = url
        pool.environment["PREFECT_INTEGRATIONS_GPU_LEDGER_URL"] = (
            f"{address}{HOST}:{line.port}/{name}"
        )
        pool.attempts("")  # makes the tables
        held.execute(_HELD_START)
        held.execute("SELECT pg_advisory_lock(1)")
        deployment = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(600, release))
        run = pool.submit(deployment, "run")
        pool.start_worker()
        wait_for(lambda: journal.entries("begin"), "the process works")

        assert line.cut()
        held.execute("SELECT pg_advisory_unlock(1)")
        wait_for(lambda: pool.attempts(run)[0].started_at, "its start is written down")
        release.touch()
        pool.wait_until(run, "Completed")
        wait_for(lambda: closed(pool, run, 1), "its one attempt is closed")

    (attempt,) = pool.attempts(run)
    assert attempt.end_reason is EndReason.COMPLETED
    assert [entry["attempt"] for entry in journal.entries("begin")] == [1]


@pytest.fixture
def database() -> Iterator[PostgresqlServer]:
    """A server for the ledger alone. A test names it before its pools, which end before it."""
    with stoppable_postgresql() as running:
        yield running


def _stay_away(pool, waiting):
    """The database stays away, and three workers find it so, each killed by the next one."""
    back_at = time.monotonic() + _OUTAGE_S
    for left in (3, 2, 1):
        pool.start_worker()
        until = back_at - _OUTAGE_S * (left - 1) / 3
        wait_for(lambda until=until: time.monotonic() > until, "the outage", 2 * _OUTAGE_S)
        assert pool.run(waiting)["run_count"] == 0, "nothing starts without the ledger"
        pool.kill_worker()


@pytest.mark.postgresql
def test_ends_while_the_ledger_is_down_and_no_worker_lives_are_written_down_once(
    database, new_pool, journal
):
    """The ledger's database stops under a full pool, all runs end, and their worker is killed."""
    pool, release = new_pool(), journal.path.with_name("release")
    pool.ledger_url = new_database(database.address)
    pool.environment["PREFECT_INTEGRATIONS_GPU_LEDGER_URL"] = pool.ledger_url
    deployment = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(600, release))
    runs = [pool.submit(deployment, f"run-{number}", gpu_count=1) for number in range(8)]
    waiting = pool.submit(deployment, "next", gpu_count=8)
    pool.start_worker()
    wait_for(lambda: len(journal.entries("begin")) == len(runs), "all GPUs are in use")
    wait_for(
        lambda: all(a and a[0].started_at for a in pool.attempts_of(runs).values()),
        "every start is written down",
    )

    database.stop()
    release.touch()
    for run in runs:
        pool.wait_until(run, "Completed")
    wait_for(lambda: "Failed to finalize flow run" in pool.worker_log(), "it cannot settle them")
    pool.kill_worker()
    if _OUTAGE_S:
        _stay_away(pool, waiting)
    back_at = time.time()
    database.start()
    pool.start_worker()

    pool.wait_until(waiting, "Completed")
    wait_for(lambda: all(closed(pool, run, 1) for run in (*runs, waiting)), "all are closed")
    ended_at = {entry["run"]: entry["at"] for entry in journal.entries("end")}
    for run in (*runs, waiting):
        (attempt,) = pool.attempts(run)
        assert attempt.end_reason is EndReason.COMPLETED
        assert not attempt.is_end_estimated
        assert ended_at[run] <= attempt.released_at.timestamp()
        assert (attempt.released_at.timestamp() < back_at) == (run in runs), "when it ended"
    assert len(journal.entries("begin")) == len(journal.entries("end")) == 9
    with Ledger.open(pool.ledger_url) as ledger:
        admitted = ledger.decisions(kind=DecisionKind.ADMITTED)
        assert sorted(each.flow_run_id for each in admitted) == sorted((*runs, waiting))
        assert [check.problem for check in ledger.check_decisions()] == [None]
