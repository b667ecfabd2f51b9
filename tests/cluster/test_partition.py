"""A node that the API server does not hear of, while what runs there works on.

Time alone starts its run nowhere else: by default the Node has to be deleted, or tainted as out of
service. Then it is started again, once.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from gpu_core.decisions.model.attempts import EndReason
from tests.cluster.chaos import kubelet_over_line
from tests.cluster.pools import FLOWS, JOURNALED_RUN, POLICY, kubernetes_pool
from tests.support.cluster import Cluster, Namespace, local_cluster
from tests.support.prefect_stack import Pool, PrefectServer
from tests.support.run_journal import Life, faults_of_lives, read_lives
from tests.support.waiting import wait_for

HERE, DELETED, OUT_OF_SERVICE = "gpu-a", "gpu-b", "gpu-c"
GPUS = 4
# Until then it works on, whatever the machine is busy with.
MANY_STEPS, FEW_STEPS = 100_000, 4
BY_DEFAULT = POLICY.replace("  fenced_after: 15s\n", "").replace(
    "pending_timeout: 20s", "pending_timeout: 180s"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three nodes with a kubelet each."""
    nodes = (f"--node={name}" for name in (HERE, DELETED, OUT_OF_SERVICE))
    with local_cluster(*nodes, f"--gpus={GPUS}") as running:
        yield running


@pytest.fixture
def pool(server: PrefectServer, namespace: Namespace, tmp_path: Path) -> Iterator[Pool]:
    pool = kubernetes_pool(server, namespace, tmp_path / "pool", BY_DEFAULT)
    pool.start_worker()
    yield pool
    pool.close()
    pool.print_logs()


def test_the_runs_of_silent_nodes_go_on_elsewhere_when_a_person_says_so_and_not_before(
    pool: Pool, cluster: Cluster, namespace: Namespace
) -> None:
    folder = pool.folder / "shared"
    deployment = pool.deploy(f"{FLOWS}:do_nothing")

    def submit(name: str, gpus: int, steps: int, mode: str = "forgets") -> str:
        command = f"/bin/sh {JOURNALED_RUN} {folder} {steps} {mode}"
        return pool.submit(deployment, name, container_command=command, gpu_count=gpus)

    def lives(run: str) -> list[Life]:
        return [life for life in read_lives(folder / "journal") if life.run == run]

    with ExitStack() as lines:
        lost = {}
        for node in (DELETED, OUT_OF_SERVICE):
            line = lines.enter_context(kubelet_over_line(cluster, node))
            lost[node] = line
        cluster.kubectl("cordon", HERE)
        runs = [submit(f"lost-{number}", GPUS, MANY_STEPS) for number in range(2)]
        wait_for(lambda: all(map(lives, runs)), "both work", 180)
        run_on = {pool.attempts(run)[-1].node: run for run in runs}
        assert run_on.keys() == lost.keys()
        cluster.kubectl("uncordon", HERE)

        with ExitStack() as partition:
            for line in lost.values():
                partition.enter_context(line.parted())
            for node, run in run_on.items():
                wait_for(
                    lambda run=run, node=node: says(pool, run, f"Node {node} has not reported"),
                    "its page says what is waited for",
                    180,
                )
            # The scheduler goes on: with another run, and not with these.
            other = submit("other", GPUS, FEW_STEPS)
            pool.wait_until(other, "Completed", timeout_s=180)
            noted = {run: lives(run)[-1].step for run in runs}
            wait_for(lambda: all(lives(run)[-1].step > noted[run] for run in runs), "they work on")
            for run in runs:
                (attempt,) = pool.attempts(run)
                assert attempt.released_at is None
                assert len(lives(run)) == 1

            # A person switches both machines off and says so, for each in another way.
            for run in runs:
                switch_off(run)
            cluster.delete_node(DELETED)
            wait_for(lambda: len(lives(run_on[DELETED])) == 2, "it goes on elsewhere", 180)
            (first, second) = pool.attempts(run_on[DELETED])
            assert (first.node, first.end_reason) == (DELETED, EndReason.INTERRUPTED)
            assert second.node == HERE
            # It makes room for the other one.
            pool.call("POST", f"/flow_runs/{run_on[DELETED]}/set_state", CANCELLING)
            pool.wait_until(run_on[DELETED], "Cancelled", timeout_s=180)
            assert len(lives(run_on[OUT_OF_SERVICE])) == 1
            taint = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
            cluster.taint(OUT_OF_SERVICE, taint)
            wait_for(lambda: len(lives(run_on[OUT_OF_SERVICE])) == 2, "and so does this", 180)
            (first, second) = pool.attempts(run_on[OUT_OF_SERVICE])
            assert (first.node, first.end_reason) == (OUT_OF_SERVICE, EndReason.INTERRUPTED)
            assert second.node == HERE
    assert faults_of_lives(read_lives(folder / "journal"), [other]) == []


CANCELLING = {"state": {"type": "CANCELLING", "name": "Cancelling"}}


def says(pool: Pool, run: str, text: str) -> bool:
    return any(text in line for line in pool.logs(run))


def switch_off(run: str) -> None:
    """What the end of a machine is for the processes of a run there."""
    for process in psutil.process_iter():
        try:
            if process.environ().get("PREFECT__FLOW_RUN_ID") == run:
                process.kill()
        except psutil.Error:
            continue
