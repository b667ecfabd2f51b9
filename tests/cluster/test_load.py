"""Many container jobs and flows at once: all complete, in one attempt, on the GPUs there are.

`PREFECT_GPU_LOAD_RUNS=100` puts a hundred container jobs and twenty flows in line.
"""

import os
from collections import Counter

import pytest

from gpu_core.decisions.accounting import EndReason
from tests.bench.load import gpus_held_twice, most_gpus_at_once, starts_per_minute
from tests.cluster.pools import FLOWS
from tests.support.cluster import GPU
from tests.support.prefect_stack import wait_for
from tests.support.sight import watched

CONTAINERS = int(os.environ.get("PREFECT_GPU_LOAD_RUNS", "12"))
FLOW_RUNS = max(2, CONTAINERS // 5)
RUNS = CONTAINERS + FLOW_RUNS


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
