"""Workers of two machines on one pool."""

from gpu_core.adapters.ledger import Ledger
from tests.end_to_end.conftest import FLOWS
from tests.support.waiting import wait_for


def test_workers_of_two_machines_start_no_run_twice(pool, journal):
    """Both see every run and plan it; Prefect gives it to one of them, and the other lets it be."""
    deployment = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(seconds=1))
    runs = [pool.submit(deployment, f"run-{number}", gpu_count=1) for number in range(8)]
    pool.start_worker()
    other_ledger = f"sqlite:///{pool.folder / 'other.db'}"
    pool.environment |= {
        # What makes it another machine, as far as these workers can see.
        "PREFECT_INTEGRATIONS_GPU_STATE_DIR": str(pool.folder / "other"),
        "PREFECT_INTEGRATIONS_GPU_LEDGER_URL": other_ledger,
    }
    second = pool.start_worker()

    wait_for(lambda: "Scheduling" in second.log.read_text(), "the second worker acts")
    for run in runs:
        pool.wait_until(run, "Completed")

    assert sorted(entry["run"] for entry in journal.entries("begin")) == sorted(runs)

    def open_attempts():
        with Ledger.open(other_ledger) as other:
            theirs = [a for of_run in other.attempts_of(runs).values() for a in of_run]
        attempts = [*theirs, *(a for run in runs for a in pool.attempts(run))]
        return [a for a in attempts if a.released_at is None] or len(attempts) != len(runs)

    wait_for(lambda: not open_attempts(), "each run has one attempt in all, and it is closed")
