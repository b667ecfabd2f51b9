"""What becomes of runs when their worker, their pool or Prefect's server is disturbed."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.cluster.pools import FLOWS, JOURNALED_RUN, pods_of, settled, shell, working_pool
from tests.support.cluster import Namespace
from tests.support.prefect_stack import Pool
from tests.support.run_journal import faults_of_lives, read_lives
from tests.support.waiting import wait_for


@dataclass(frozen=True)
class Killed:
    """Two runs whose worker was killed and followed by another one.

    Attributes:
        left_alone: Nothing else happened to it.
        replaced: Its pod was deleted while no worker was there, and took three seconds to end.
    """

    pool: Pool
    namespace: Namespace
    left_alone: str
    replaced: str


@pytest.fixture(scope="module")
def _killed(cluster, server, tmp_path_factory) -> Iterator[Killed]:
    folder = tmp_path_factory.mktemp("killed")
    with working_pool(cluster, server, folder) as (pool, namespace):
        yield with_worker_killed(pool, namespace)


@pytest.fixture
def killed(_killed) -> Iterator[Killed]:
    yield _killed
    _killed.pool.print_runs([_killed.left_alone, _killed.replaced])
    _killed.pool.print_logs()


def with_worker_killed(pool: Pool, namespace: Namespace) -> Killed:
    """Kill the worker of two runs, and start another one."""
    folder = pool.folder / "shared"
    journal, hold = folder / "journal", folder / "hold"
    hold.touch()  # or a busy machine deletes its pod after it has ended
    deployment = pool.deploy(f"{FLOWS}:do_nothing")
    left_alone = pool.submit(
        deployment, "left alone", **shell(f"while [ -e {hold} ]; do sleep 0.2; done")
    )
    command = f"/bin/sh {JOURNALED_RUN} {folder} 10 keeps 3"
    replaced = pool.submit(deployment, "replaced", container_command=command)
    pool.wait_until(left_alone, "Running", timeout_s=90)
    wait_for(lambda: journal.exists() and " step " in journal.read_text(), "it works")
    pool.kill_worker()
    (pod,) = pods_of(namespace, replaced)
    namespace.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")
    wait_for(lambda: " stopped " in journal.read_text(), "it has ended, three seconds later", 60)
    # A worker that still sees it ends the attempt instead, and starts the next one.
    gone = pod["metadata"]["uid"]
    wait_for(
        lambda: all(each["metadata"]["uid"] != gone for each in pods_of(namespace, replaced)),
        *("its pod is gone", 240),
    )
    pool.start_worker()
    wait_for(lambda: "Recovered 2 attempts" in pool.worker_log(), "both are taken over")
    hold.unlink()
    return Killed(pool, namespace, left_alone, replaced)


def test_a_killed_worker_is_followed_by_one_that_takes_its_runs_over(killed):
    pool, run = killed.pool, killed.left_alone
    pool.wait_until(run, "Completed", timeout_s=120)
    settled(pool, run)
    (attempt,) = pool.attempts(run)
    assert attempt.end_reason == "Completed"
    assert len(pods_of(killed.namespace, run)) == 1


def test_a_replaced_pod_begins_when_its_forerunner_has_ended(killed):
    """While no worker is there Kubernetes before 1.26 makes another pod for one that still ends."""
    pool, run = killed.pool, killed.replaced
    pool.wait_until(run, "Completed", timeout_s=120)
    settled(pool, run)
    lives = read_lives(pool.folder / "shared" / "journal")
    assert len(lives) == 2
    assert faults_of_lives(lives, [run], [run]) == []


@pytest.fixture
def pool(new_pool) -> Pool:
    pool = new_pool()
    pool.start_worker()
    return pool


def test_a_template_that_changes_under_running_pods_counts_for_the_next_run(pool, namespace):
    deployment = pool.deploy(f"{FLOWS}:do_nothing")
    release = pool.folder / "shared" / "release"
    first = pool.submit(deployment, "first", **shell(f"until [ -e {release} ]; do sleep 0.2; done"))
    pool.wait_until(first, "Running", timeout_s=90)
    (uid,) = (pod["metadata"]["uid"] for pod in pods_of(namespace, first))
    template = pool.call("GET", f"/work_pools/{pool.name}")["base_job_template"]
    manifest = template["job_configuration"]["job_manifest"]

    def change(part):
        pool.call("PATCH", f"/work_pools/{pool.name}", {"base_job_template": part})

    job = manifest["spec"]["template"]
    manifest["spec"]["template"] = {**job, "spec": {**job["spec"], "containers": []}}
    change(template)
    broken = pool.submit(deployment, "broken", **shell("true"))
    pool.wait_until(broken, "Crashed", timeout_s=120)
    assert "The pool's base job template is invalid" in pool.message(broken)
    assert "/spec/template/spec/containers/0" in pool.message(broken)
    manifest["spec"]["template"] = {**job, "metadata": {"labels": {"team": "changed"}}}
    change(template)
    second = pool.submit(deployment, "second", **shell("true"))
    pool.wait_until(second, "Completed", timeout_s=120)
    (pod,) = pods_of(namespace, second)
    assert pod["metadata"]["labels"]["team"] == "changed"

    release.touch()
    pool.wait_until(first, "Completed", timeout_s=120)
    settled(pool, first)
    (attempt,) = pool.attempts(first)
    assert attempt.end_reason == "Completed"
    assert [pod["metadata"]["uid"] for pod in pods_of(namespace, first)] == [uid]
    assert "Traceback" not in pool.worker_log()


def test_a_flow_that_fails_as_the_server_is_away_is_not_charged(pool, server):
    """It reports so to Prefect when the server is back."""
    shared = pool.folder / "shared"
    deployment = pool.deploy(f"{FLOWS}:ask_prefect_when_released")
    run = pool.submit(deployment, "asking", {"folder": str(shared)}, max_failures=1)
    wait_for((shared / "began-1").exists, "the flow works", 120)

    server.stop()
    try:
        seen = "Prefect's API is unavailable"
        wait_for(lambda: seen in pool.worker_log(), "the worker saw the outage")
        (shared / "release").touch()
        wait_for((shared / "failed-1").exists, "the flow failed by it")
    finally:
        server.start()
    pool.wait_until(run, "Completed", timeout_s=180)
    settled(pool, run)

    first, second = pool.attempts(run)
    assert first.end_reason == "Interrupted", first.end_message
    assert first.end_message.startswith("Interrupted: Prefect's API was unavailable from ")
    assert not first.is_charged_failure
    assert second.end_reason == "Completed"
