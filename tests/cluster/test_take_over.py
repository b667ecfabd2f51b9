"""Two workers of one pool: when the acting one is killed the other acts, within 15 s."""

import os
import signal
from datetime import UTC, datetime

from tests.cluster.pools import FLOWS
from tests.support.waiting import wait_for

# What the worker type promises (`GpuKubernetesWorker`).
TAKE_OVER_S = 15.0
_SLEEP = "/bin/sh -c 'sleep 5'"


def lease(namespace):
    """The pool's lease as the cluster has it; empty: there is none yet."""
    leases = namespace.get("leases.coordination.k8s.io")["items"]
    return leases[0]["spec"] if leases else {}


def pid_of(holder):
    """A holder is HOST-PID-RANDOM."""
    return int(holder.rsplit("-", 2)[1])


def first_action_at(pool, runs, since):
    """When did a run of these first get another state after this moment? None: not yet.

    Only the acting worker changes the state of a container job.
    """
    at = [datetime.fromisoformat(state["timestamp"]) for run in runs for state in pool.states(run)]
    return min((moment for moment in at if moment > since), default=None)


def test_when_the_acting_worker_is_killed_the_other_acts_within_15_s_and_nothing_is_lost(
    new_pool, namespace
):
    pool = new_pool()
    pool.start_worker()
    wait_for(lambda: lease(namespace).get("holderIdentity"), "one worker acts", timeout_s=120)
    first = lease(namespace)["holderIdentity"]
    second = pool.start_worker()
    wait_for(lambda: "on standby" in second.log.read_text(), "the other waits", timeout_s=120)

    # Of the eight GPUs each takes four: at the moment of death two run or start, the others wait.
    deployment = pool.deploy(f"{FLOWS}:do_nothing")
    runs = [
        pool.submit(deployment, f"run-{n}", container_command=_SLEEP, gpu_count=4) for n in range(6)
    ]
    wait_for(lambda: pool.count(runs, "Running") >= 1, "one runs", timeout_s=120)
    os.kill(pid_of(first), signal.SIGKILL)
    killed_at = datetime.now(UTC)

    wait_for(lambda: pool.count(runs, "Completed") == len(runs), "no run is lost", timeout_s=240)
    taken = lease(namespace)
    assert taken["holderIdentity"] != first
    pods = namespace.get("pods")["items"]
    of_runs = sorted(pod["metadata"]["labels"]["prefect-gpu.dev/flow-run-id"] for pod in pods)
    assert of_runs == sorted(runs), "a run has two pods, or none"
    for run in runs:
        wait_for(lambda run=run: pool.attempts(run)[-1].released_at, "its attempt is closed")
        (attempt,) = pool.attempts(run)
        assert attempt.end_reason == "Completed"
    taken_at = datetime.fromisoformat(taken["acquireTime"])
    acted_at = first_action_at(pool, runs, max(killed_at, taken_at))
    print(f"lease: {_s(killed_at, taken_at)} s, first action: {_s(killed_at, acted_at)} s after")
    assert _s(killed_at, acted_at) <= TAKE_OVER_S


def test_a_container_that_was_done_is_not_run_again_when_its_worker_and_its_job_are_gone(
    new_pool, namespace, server
):
    """Prefect was unavailable when it ended: nothing but the ledger knows how."""
    pool = new_pool()
    pool.start_worker()
    deployment = pool.deploy(f"{FLOWS}:do_nothing")
    run = pool.submit(deployment, "done", container_command=_SLEEP, gpu_count=4)
    pool.wait_until(run, "Running", timeout_s=120)
    server.stop()
    try:
        wait_for(lambda: pool.attempts(run)[0].gone_at, "its GPUs are free", timeout_s=120)
        (seen,) = pool.attempts(run)
        assert (seen.released_at, seen.exit.exit_code) == (None, 0)
        pool.kill_worker()
        namespace.kubectl("delete", "jobs", "--all")
    finally:
        server.start()
    pool.start_worker()
    pool.wait_until(run, "Completed", timeout_s=120)
    wait_for(lambda: pool.attempts(run)[-1].released_at, "its attempt is closed")
    (attempt,) = pool.attempts(run)
    assert attempt.end_reason == "Completed"
    assert attempt.released_at == seen.exit.ended_at
    assert namespace.get("pods")["items"] == []


def _s(begin, end):
    return round((end - begin).total_seconds(), 1)
