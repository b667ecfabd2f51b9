"""Many container jobs and flows at once: all complete, in one attempt, on the GPUs there are.

`PREFECT_GPU_LOAD_RUNS=100` puts a hundred container jobs and twenty flows in line, and
`PREFECT_GPU_LOAD_CONTAINERS=500` runs 500 container jobs at a time, on simulated nodes; without it
that story, which takes minutes, is left to `make chaos`.
"""

import os
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.load import gpus_held_twice, most_gpus_at_once, starts_per_minute
from gpu_core.decisions.kubernetes.manifests.names import FLOW_RUN_LABEL
from gpu_core.decisions.model.attempts import EndReason
from tests.cluster.pools import FLOWS
from tests.cluster.simulated_pool import FLOW, simulated_pool
from tests.support.cluster import GPU, Namespace
from tests.support.prefect_stack import PrefectServer
from tests.support.sight import watched
from tests.support.simulated_pods import PREFIX
from tests.support.waiting import wait_for

CONTAINERS = int(os.environ.get("PREFECT_GPU_LOAD_RUNS", "12"))
FLOW_RUNS = max(2, CONTAINERS // 5)
RUNS = CONTAINERS + FLOW_RUNS

# A client of the API has 100 connections at most, and a followed log holds one.
AT_ONCE = int(os.environ.get("PREFECT_GPU_LOAD_CONTAINERS", "0"))
LINES = 30
GPUS_PER_NODE = 8


@pytest.mark.timeout(240 + 30 * RUNS)
def test_many_runs_at_once_all_complete_in_one_attempt_on_the_gpus_there_are(
    new_pool, namespace, cluster
):
    pool = new_pool()
    deployment = pool.deploy(f"{FLOWS}:do_nothing")
    containers = [
        pool.submit(deployment, f"container-{n}", container_command="/bin/sh -c 'sleep 1'")
        for n in range(CONTAINERS)
    ]
    flows = [pool.submit(deployment, f"flow-{n}", gpu_count=2) for n in range(FLOW_RUNS)]
    runs = [*containers, *flows]
    with watched(namespace) as sight:
        pool.start_worker()
        wait_for(lambda: pool.count(runs, "Completed") == RUNS, "all completed", 180 + 25 * RUNS)
    wait_for(
        lambda: all(of_run[-1].released_at for of_run in pool.attempts_of(runs).values()),
        *("all are closed", 90),
    )

    attempts = sorted(
        (attempt for of_run in pool.attempts_of(runs).values() for attempt in of_run),
        key=lambda attempt: attempt.admitted_at,
    )
    gpus = sum(int(n["status"]["allocatable"][GPU]) for n in cluster.get("nodes")["items"])
    ends = Counter(attempt.end_reason for attempt in attempts)
    print(
        f"\nload: {CONTAINERS} container jobs and {FLOW_RUNS} flows at once, "
        f"{pool.count(runs, 'Completed')} completed\n"
        f"  attempts  {', '.join(f'{count} {end}' for end, count in ends.items())}\n"
        f"  starts    {starts_per_minute(attempts)} a minute\n"
        f"  GPUs      at most {sight.most_gpus} of {gpus} at a time, in {sight.looks} looks"
    )
    assert ends == {EndReason.COMPLETED: RUNS}
    assert most_gpus_at_once(attempts) <= gpus
    assert gpus_held_twice(attempts) == []
    assert sight.most_gpus <= gpus
    assert not sight.twice
    assert len(namespace.get("pods")["items"]) == RUNS


@pytest.mark.skipif(not AT_ONCE, reason="PREFECT_GPU_LOAD_CONTAINERS is not set: `make chaos`")
@pytest.mark.timeout(300 + 5 * AT_ONCE)
def test_more_containers_run_at_a_time_than_a_client_has_connections(
    server: PrefectServer, namespace: Namespace, tmp_path: Path
) -> None:
    nodes = -(-AT_ONCE // GPUS_PER_NODE)
    with namespace.cluster.simulated_nodes(nodes, "--name=load", f"--gpus={GPUS_PER_NODE}"):
        pool = simulated_pool(server, namespace, tmp_path / "pool", "load")
        try:
            pool.start_worker()
            deployment = pool.deploy(FLOW, container_command="train")
            runs = [
                pool.submit(deployment, f"run-{n}", log_lines=str(LINES), log_every_s="0.5")
                for n in range(AT_ONCE)
            ]
            wait_for(lambda: pool.count(runs, "Running") == AT_ONCE, "all run", 60 + 2 * AT_ONCE)
            namespace.kubectl("annotate", "pods", "--all", f"{PREFIX}run-for-s={LINES}")
            wait_for(lambda: pool.count(runs, "Completed") == AT_ONCE, "all end", 120 + 2 * AT_ONCE)
            nodes_of = {
                pod["metadata"]["labels"][FLOW_RUN_LABEL]: pod["spec"]["nodeName"]
                for pod in namespace.get("pods")["items"]
            }
            attempts = pool.attempts_of(runs)
            lines = {
                run: [line for line in pool.logs(run) if line.startswith("line ")] for run in runs
            }
        finally:
            pool.close()
            pool.print_logs()

    want = [f"line {number}" for number in range(LINES)]
    assert {run: reported for run, reported in lines.items() if reported != want} == {}
    assert {run: [a.node for a in of_run] for run, of_run in attempts.items()} == {
        run: [node] for run, node in nodes_of.items()
    }
    # It kept its lease: nothing was in the way of the renewals.
    assert "on standby" not in pool.worker_log()
