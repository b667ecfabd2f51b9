"""A run whose flow has not started is not preempted, and is once it has."""

from datetime import datetime

from gpu_core.decisions.model.attempts import EndReason
from tests.end_to_end.conftest import FLOWS
from tests.support.waiting import wait_for


def test_no_run_is_preempted_while_it_starts(pool, journal, tmp_path):
    """The urgent run waits for the start, also after the worker was killed, and learns why."""
    gate, release = tmp_path / "gate", tmp_path / "release"
    slow = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(120, release, gate))
    quick = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables())
    low = pool.submit(slow, "low", gpu_count=8, gpu_priority="low")
    pool.start_worker()
    wait_for(lambda: journal.entries("begin"), "the process of the low run is there")

    pool.kill_worker()
    pool.start_worker()
    urgent = pool.submit(quick, "urgent", gpu_count=8, gpu_priority="critical")
    wait_for(lambda: "protected while it is starting" in pool.message(urgent), "the reason is told")
    assert pool.attempts(low)[0].drain_requested_at is None

    gate.touch()
    pool.wait_until(urgent, "Completed")
    (attempt,) = (a for a in pool.attempts(low) if a.number == 1)
    assert attempt.end_reason is EndReason.PREEMPTED
    began_at = next(s for s in pool.states(low) if s["name"] == "Running")["timestamp"]
    assert attempt.drain_requested_at > datetime.fromisoformat(began_at)
    release.touch()
    pool.wait_until(low, "Completed")
