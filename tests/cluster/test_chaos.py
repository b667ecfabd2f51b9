"""Whatever happens: no run is lost, none runs twice, and the ledger has what really happened.

`make chaos` plays longer stories: `PREFECT_GPU_CHAOS_RUNS` runs for each of
`PREFECT_GPU_CHAOS_SEEDS` seeds, a fault for every third run. Three nodes with kubelets run
processes; `PREFECT_GPU_CHAOS_SIMULATED` more containers run at a time on simulated nodes, where
pods cost nothing.
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_core.decisions.model.attempts import Attempt
from tests.cluster.chaos import Chaos, cuttable, kubelet_over_line, uptime_s
from tests.cluster.chaos_runs import Runs, submit, submit_simulated
from tests.cluster.job_queue import job_queue
from tests.cluster.pools import POLICY, kubernetes_pool
from tests.cluster.simulated_pool import simulated_pool
from tests.cluster.verdicts import (
    faults_of_gpus,
    faults_of_leftovers,
    faults_of_places,
    faults_of_prices,
    faults_of_sight,
    faults_of_states,
    leftovers,
    lives_seen,
)
from tests.support.chaos_report import Story, report
from tests.support.cluster import GPU, Cluster, Namespace, local_cluster
from tests.support.cuttable_line import CuttableLine
from tests.support.faults import Kind, agenda
from tests.support.prefect_stack import PrefectServer
from tests.support.run_journal import faults_of_gangs, faults_of_ledger, faults_of_lives
from tests.support.sight import watched
from tests.support.waiting import wait_for

RUNS_IN_CI = 12
RUNS = int(os.environ.get("PREFECT_GPU_CHAOS_RUNS", RUNS_IN_CI))
SEEDS = int(os.environ.get("PREFECT_GPU_CHAOS_SEEDS", "1"))
FIRST_SEED = int(os.environ.get("PREFECT_GPU_CHAOS_FIRST_SEED", "1"))
RUNS_PER_FAULT = 3
SIMULATED_AT_ONCE = int(os.environ.get("PREFECT_GPU_CHAOS_SIMULATED", "8"))
SIMULATED = 2 * SIMULATED_AT_ONCE

# After an outage of the kubelet or of Prefect's server, or of a line without a word, it takes a
# minute until all is as before.
KINDS = (
    (
        Kind.WORKER_KILLED,
        Kind.POD_DELETED,
        Kind.API_SERVER_RESTARTED,
        Kind.SPOT_TAKEN_BACK,
        Kind.NODE_DRAINED,
    )
    if RUNS <= RUNS_IN_CI
    else tuple(Kind)
)
# No run may wait for ever, but a busy machine takes its time to start a pod. And by default
# a silent node is waited for: no run of it is started again while it may still work there.
PATIENT = POLICY.replace("pending_timeout: 20s", "pending_timeout: 180s").replace(
    "  fenced_after: 15s\n", ""
)
# Others place the runs of this pool: what runs need is still written for the cluster as it is.
QUEUED = PATIENT.replace('version: "1.20"', 'version: "1.22"\n  kueue_queue: gpus')
NODES = ("gpu-a", "gpu-b", "gpu-c")
GPUS_PER_NODE = 4
# What the nodes with kubelets have and the simulated ones have not.
WITH_KUBELET = {"node.kubernetes.io/instance-type": "g5.12xlarge"}
GPUS_PER_SIMULATED_NODE = 8
# Of a GPU-hour, as the policy has it. The first node, which is never deleted, is a spot instance.
SPOT = "karpenter.sh/capacity-type=spot"
PRICES_MICRO_USD = dict.fromkeys(NODES, 1_000_000) | {NODES[0]: 400_000}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three nodes with a kubelet each, and simulated ones."""
    with local_cluster(*(f"--node={name}" for name in NODES), f"--gpus={GPUS_PER_NODE}") as running:
        running.kubectl("label", "--overwrite", "node", NODES[0], SPOT)
        simulated = running.simulated_nodes(
            # A gang needs two of them.
            max(2, -(-SIMULATED_AT_ONCE // GPUS_PER_SIMULATED_NODE)),
            *("--name=simulated", f"--gpus={GPUS_PER_SIMULATED_NODE}"),
            "--instance-type=g5.48xlarge",
        )
        with simulated:
            yield running


@pytest.fixture(scope="module")
def node_lines(cluster: Cluster) -> Iterator[Mapping[str, CuttableLine]]:
    """Between kubelets and the API server; none where no fault cuts them."""
    parted = NODES[1:] if {Kind.NODE_PARTED, Kind.NODE_SWITCHED_OFF} & set(KINDS) else ()
    with ExitStack() as lines:
        yield {name: lines.enter_context(kubelet_over_line(cluster, name)) for name in parted}


@pytest.fixture
def chaos(
    server: PrefectServer,
    namespace: Namespace,
    node_lines: Mapping[str, CuttableLine],
    tmp_path: Path,
) -> Iterator[Chaos]:
    """With pools that place their runs, of processes and simulated, and one for a queue's runs."""
    with cuttable(namespace.cluster, tmp_path) as (cluster, line):
        over_line = Namespace(cluster, namespace.name)
        pools = [
            kubernetes_pool(server, over_line, tmp_path / name, policy, node_selector=WITH_KUBELET)
            for name, policy in (("placing", PATIENT), ("queueing", QUEUED))
        ]
        pools.append(
            simulated_pool(server, over_line, tmp_path / "simulated", "simulated", PATIENT)
        )
        yield Chaos(pools, server, namespace, line, node_lines)
        for pool in pools:
            pool.close()


@pytest.mark.postgresql
@pytest.mark.timeout(240 + 60 * RUNS + 20 * SIMULATED)
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_whatever_happens_no_run_is_lost_and_none_runs_twice(
    chaos: Chaos, namespace: Namespace, tmp_path: Path, seed: int
) -> None:
    (pool, queued, simulated), began_s, draws = chaos.pools, uptime_s(), random.Random(seed)
    runs = submit(pool, queued, RUNS, draws)
    runs.simulated = submit_simulated(simulated, SIMULATED, draws)
    chaos.runs = runs.all

    def submit_another() -> None:
        runs.simulated += submit_simulated(simulated, 1, draws)
        chaos.runs = runs.all

    chaos.submit_another = submit_another
    with (
        job_queue(
            namespace, lambda run: queued.attempts(run)[-1].node, random.Random(seed), tmp_path
        ) as queue,
        watched(namespace) as sight,
    ):
        for each in chaos.pools:
            each.start_worker()
        wait_for(chaos.lives, "the first run works", 180)
        for number, fault in enumerate(agenda(seed, RUNS // RUNS_PER_FAULT, KINDS)):
            # Spread over half the story, so that the last one still has a run to hit; but where
            # nothing continues, the next one comes all the same.
            wait(lambda ended=number * RUNS_PER_FAULT // 2: count_ended(chaos) >= ended, 60)
            chaos.do(fault)
        left = wait(
            lambda: pool.count(chaos.runs, "Completed") == len(chaos.runs),
            120 + 30 * RUNS + 10 * SIMULATED,
        )
        wait(lambda: all(map(is_closed, chaos.attempts().values())), 60)

    story = Story(
        seed=seed,
        took_s=uptime_s() - began_s,
        deeds=chaos.deeds,
        ends={run: pool.state(run) for run in chaos.runs},
        attempts=chaos.attempts(),
        lives=chaos.lives(),
        saving=runs.saving,
        sight=sight,
        gpus=gpus_of_nodes(namespace),
        elsewhere=queue.elsewhere,
        left=Counter(found["kind"] for found in leftovers(namespace)),
        violations=left,
    )
    story = replace(story, violations=[*left, *violations(story, runs, chaos, namespace)])
    print(f"\n{report(story)}")
    assert not story.violations, "\n".join([report(story), "", *map(str, chaos.deeds)])


def wait(condition: Callable[[], object], timeout_s: float) -> list[str]:
    """What did not come in time? Nothing, if it did."""
    try:
        wait_for(condition, "every run is completed and settled", timeout_s)
    except AssertionError as error:
        return [str(error)]
    return []


def count_ended(chaos: Chaos) -> int:
    return len({life.run for life in chaos.lives() if life.has_ended})


def is_closed(attempts: Sequence[Attempt]) -> bool:
    return bool(attempts) and all(attempt.released_at is not None for attempt in attempts)


def gpus_of_nodes(namespace: Namespace) -> int:
    nodes = namespace.cluster.get("nodes")["items"]
    return sum(int(node["status"]["allocatable"].get(GPU, 0)) for node in nodes)


def violations(story: Story, runs: Runs, chaos: Chaos, namespace: Namespace) -> Iterator[str]:
    """What was it that must not be? By the runs' own journal, the cluster, Prefect, the ledger."""
    of_simulated = {run: story.attempts[run] for run in runs.simulated}
    lives = [*story.lives, *lives_seen(story.sight, of_simulated)]
    yield from faults_of_lives(story.lives, runs.ids, story.saving)
    yield from faults_of_ledger(lives, story.attempts, runs.all)
    yield from faults_of_gangs(story.lives, story.attempts, runs.gangs)
    yield from faults_of_sight(story.sight, story.gpus, story.attempts)
    yield from faults_of_places(story.sight, story.attempts, story.lives)
    yield from faults_of_gpus(story.sight, story.attempts)
    yield from faults_of_prices(story.sight, story.attempts, PRICES_MICRO_USD)
    yield from faults_of_leftovers(namespace, story.attempts)
    for run in runs.all:
        yield from faults_of_states(run, [state["name"] for state in chaos.pools[0].states(run)])
    if not all(pool.worker_lives() for pool in chaos.pools):
        yield "a worker ended by itself"
    struck = {deed.kind for deed in story.deeds if deed.has_struck}
    yield from (f"no {kind} struck" for kind in {deed.kind for deed in story.deeds} - struck)
