"""Whatever happens: no run is lost, none runs twice, and the ledger has what really happened.

`make chaos` tells longer stories: `PREFECT_GPU_CHAOS_RUNS` runs for each of
`PREFECT_GPU_CHAOS_SEEDS` seeds, a fault for every third run.
"""

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_core.decisions.accounting import Attempt
from tests.cluster.chaos import Chaos, cuttable, kubelet_over_line, uptime_s
from tests.cluster.pools import JOURNALED_RUN, POLICY, kubernetes_pool
from tests.cluster.verdicts import (
    faults_of_leftovers,
    faults_of_places,
    faults_of_sight,
    faults_of_states,
)
from tests.support.chaos_report import Story, report
from tests.support.cluster import GPU, Cluster, Namespace, local_cluster
from tests.support.cuttable_line import CuttableLine
from tests.support.faults import Kind, agenda
from tests.support.prefect_stack import (
    Pool,
    PrefectServer,
    new_server,
    wait_for,
)
from tests.support.run_journal import faults_of_ledger, faults_of_lives
from tests.support.sight import watched

RUNS_IN_CI = 12
RUNS = int(os.environ.get("PREFECT_GPU_CHAOS_RUNS", RUNS_IN_CI))
SEEDS = int(os.environ.get("PREFECT_GPU_CHAOS_SEEDS", "1"))
RUNS_PER_FAULT = 3

# After an outage of the kubelet or of Prefect's server, or of a line without a word, it takes a
# minute until all is as before.
KINDS = (
    (Kind.WORKER_KILLED, Kind.POD_DELETED, Kind.API_SERVER_RESTARTED, Kind.SPOT_TAKEN_BACK)
    if RUNS <= RUNS_IN_CI
    else tuple(Kind)
)
# One in six is a flow: its start alone is seconds of computing.
FLOW_EVERY = 6

FLOW = "tests/cluster/flows.py:journaled"
# How long a container works on after SIGTERM.
ENDING_S = (0, 1, 3)
# Nobody may wait in vain, but a busy machine takes its time to start a pod. And by default a silent
# node is waited for: no run of it is started again while it may still work there.
PATIENT = POLICY.replace("pending_timeout: 20s", "pending_timeout: 180s").replace(
    "  fenced_after: 15s\n", ""
)
NODES = ("gpu-a", "gpu-b", "gpu-c")
GPUS_PER_NODE = 4


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, postgresql: str) -> Iterator[PrefectServer]:
    """A Prefect server that may be restarted."""
    with new_server(tmp_path_factory.mktemp("prefect-in-chaos"), postgresql) as running:
        yield running


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three nodes with a kubelet each."""
    with local_cluster(*(f"--node={name}" for name in NODES), f"--gpus={GPUS_PER_NODE}") as running:
        yield running


@pytest.fixture(scope="module")
def node_lines(cluster: Cluster) -> Iterator[Mapping[str, CuttableLine]]:
    """Between kubelets and the API server; none where no fault cuts them."""
    parted = NODES[1:] if Kind.NODE_PARTED in KINDS else ()
    with ExitStack() as lines:
        yield {name: lines.enter_context(kubelet_over_line(cluster, name)) for name in parted}


@pytest.fixture
def chaos(
    server: PrefectServer,
    namespace: Namespace,
    node_lines: Mapping[str, CuttableLine],
    tmp_path: Path,
) -> Iterator[Chaos]:
    with cuttable(namespace.cluster, tmp_path) as (cluster, line):
        over_line = Namespace(cluster, namespace.name)
        pool = kubernetes_pool(server, over_line, tmp_path / "pool", PATIENT)
        yield Chaos(pool, server, namespace, line, node_lines)
        pool.close()


@pytest.mark.postgresql
@pytest.mark.timeout(240 + 60 * RUNS)
@pytest.mark.parametrize("seed", range(1, 1 + SEEDS))
def test_whatever_happens_no_run_is_lost_and_none_runs_twice(
    chaos: Chaos, namespace: Namespace, seed: int
) -> None:
    pool, began_s = chaos.pool, uptime_s()
    chaos.runs, saving = submit(pool, chaos.journal.parent, random.Random(seed))
    with watched(namespace) as sight:
        pool.start_worker()
        wait_for(chaos.journal.exists, "the first run works", 180)
        for number, fault in enumerate(agenda(seed, RUNS // RUNS_PER_FAULT, KINDS)):
            # Spread over half the story, so that the last one still has somebody to hit; but where
            # nothing goes on, the next one comes all the same.
            wait(lambda ended=number * RUNS_PER_FAULT // 2: count_ended(chaos) >= ended, 60)
            chaos.do(fault)
        left = wait(lambda: pool.count(chaos.runs, "Completed") == RUNS, 120 + 30 * RUNS)
        wait(lambda: all(map(is_closed, pool.attempts_of(chaos.runs).values())), 60)

    story = Story(
        seed=seed,
        took_s=uptime_s() - began_s,
        deeds=chaos.deeds,
        ends={run: pool.state(run) for run in chaos.runs},
        attempts=pool.attempts_of(chaos.runs),
        lives=chaos.lives(),
        saving=saving,
        sight=sight,
        gpus=gpus_of_nodes(namespace),
        violations=left,
    )
    story = replace(story, violations=[*left, *violations(story, pool, namespace)])
    print(f"\n{report(story)}")
    assert not story.violations, "\n".join([report(story), "", *map(str, chaos.deeds)])


def submit(pool: Pool, folder: Path, draws: random.Random) -> tuple[list[str], set[str]]:
    """Put all runs in line: their ids, and those of the ones that keep checkpoints."""
    containers = pool.deploy("tests/end_to_end/flows.py:do_nothing", max_failures=5)
    flows = pool.deploy(FLOW, max_failures=5)
    runs, saving = [], set()
    for number in range(RUNS):
        steps = draws.randint(4, 24)
        name = f"run-{number}"
        if number % FLOW_EVERY == 1:
            run = pool.submit(flows, name, {"folder": str(folder), "steps": steps}, gpu_count=1)
            saving.add(run)
        else:
            saves = draws.random() < 0.5
            mode, ending_s = "keeps" if saves else "forgets", draws.choice(ENDING_S)
            command = f"/bin/sh {JOURNALED_RUN} {folder} {steps} {mode} {ending_s}"
            run = pool.submit(
                containers, name, container_command=command, gpu_count=draws.choice((1, 2, 4))
            )
            saving |= {run} if saves else set()
        runs.append(run)
    return runs, saving


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


def violations(story: Story, pool: Pool, namespace: Namespace) -> Iterator[str]:
    """What was it that must not be? By the runs' own journal, the cluster, Prefect, the ledger."""
    runs = list(story.attempts)
    yield from faults_of_lives(story.lives, runs, story.saving)
    yield from faults_of_ledger(story.lives, story.attempts, runs)
    yield from faults_of_sight(story.sight, story.gpus, story.attempts)
    yield from faults_of_places(story.sight, story.attempts)
    yield from faults_of_leftovers(namespace, story.attempts)
    for run in runs:
        yield from faults_of_states(run, [state["name"] for state in pool.states(run)])
    if not pool.worker_lives():
        yield "the worker ended by itself"
    struck = {deed.kind for deed in story.deeds if deed.has_struck}
    yield from (f"no {kind} struck" for kind in {deed.kind for deed in story.deeds} - struck)
