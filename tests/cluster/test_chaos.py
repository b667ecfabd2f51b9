"""Whatever happens: no run is lost, none runs twice, and the ledger has what really happened.

`make chaos` tells longer stories: `PREFECT_GPU_CHAOS_RUNS` runs for each of
`PREFECT_GPU_CHAOS_SEEDS` seeds, a fault for every third run.
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpu_core.decisions.accounting import Attempt
from tests.cluster.chaos import Chaos, Kind, Sight, agenda, watched
from tests.cluster.pools import POLICY, kubernetes_pool
from tests.support.cluster import GPU, Namespace
from tests.support.prefect_stack import (
    Pool,
    PrefectServer,
    new_server,
    wait_for,
)
from tests.support.run_journal import faults_of_ledger, faults_of_lives, read_lives

RUNS_IN_CI = 12
RUNS = int(os.environ.get("PREFECT_GPU_CHAOS_RUNS", RUNS_IN_CI))
SEEDS = int(os.environ.get("PREFECT_GPU_CHAOS_SEEDS", "1"))
RUNS_PER_FAULT = 3

# An outage of the kubelet or of Prefect's server takes a minute until all is as before.
KINDS = (
    (Kind.WORKER_KILLED, Kind.POD_DELETED, Kind.API_SERVER_RESTARTED, Kind.SPOT_TAKEN_BACK)
    if RUNS <= RUNS_IN_CI
    else tuple(Kind)
)
# One in six is a flow: its start alone is seconds of computing.
FLOW_EVERY = 6

SCRIPT = Path(__file__).with_name("journaled_run.sh")
FLOW = "tests/cluster/flows.py:journaled"
# Nobody may wait in vain, but a busy machine takes its time to start a pod.
PATIENT = POLICY.replace("pending_timeout: 20s", "pending_timeout: 180s")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, postgresql: str) -> Iterator[PrefectServer]:
    """A Prefect server that may be restarted."""
    with new_server(tmp_path_factory.mktemp("prefect-in-chaos"), postgresql) as running:
        yield running


@pytest.fixture
def pool(server: PrefectServer, namespace: Namespace, tmp_path: Path) -> Iterator[Pool]:
    made = kubernetes_pool(server, namespace, tmp_path / "pool", PATIENT)
    yield made
    made.close()


@pytest.mark.postgresql
@pytest.mark.timeout(240 + 60 * RUNS)
@pytest.mark.parametrize("seed", range(1, 1 + SEEDS))
def test_whatever_happens_no_run_is_lost_and_none_runs_twice(
    pool: Pool, server: PrefectServer, namespace: Namespace, seed: int
) -> None:
    folder = pool.folder / "shared"
    runs, saving = submit(pool, folder, random.Random(seed))
    chaos = Chaos(pool, server, namespace)
    with watched(namespace) as sight:
        pool.start_worker()
        wait_for(lambda: (folder / "journal").exists(), "the first run works", 180)
        for fault in agenda(seed, RUNS // RUNS_PER_FAULT, KINDS):
            chaos.do(fault)
        left = wait(lambda: pool.count(runs, "Completed") == RUNS, 120 + 30 * RUNS)
        wait(lambda: all(is_closed(pool.attempts(run)) for run in runs), 60)

    lives = read_lives(folder / "journal")
    attempts = {run: pool.attempts(run) for run in runs}
    faults = [*left, *faults_of_lives(lives, runs, saving, chaos.outages_s)]
    faults += faults_of_ledger(lives, attempts, runs, chaos.outages_s)
    faults += faults_of_sight(sight, namespace, chaos)
    print(report(seed, chaos, sight, attempts, len(lives), faults))
    assert not faults, "\n".join(["", *faults, "", *chaos.done, pool.worker_log()[-4000:]])


def submit(pool: Pool, folder: Path, draws: random.Random) -> tuple[list[str], set[str]]:
    """Put all runs in line: their ids, and those of the ones that keep checkpoints."""
    containers = pool.deploy("tests/end_to_end/flows.py:do_nothing", max_failures=5)
    flows = pool.deploy(FLOW, max_failures=5)
    runs, saving = [], set()
    for number in range(RUNS):
        steps = draws.randint(4, 16)
        name = f"run-{number}"
        if number % FLOW_EVERY == 1:
            run = pool.submit(flows, name, {"folder": str(folder), "steps": steps}, gpu_count=1)
            saving.add(run)
        else:
            saves = draws.random() < 0.5
            command = f"/bin/sh {SCRIPT} {folder} {steps} {'keeps' if saves else 'forgets'}"
            run = pool.submit(containers, name, command=command, gpu_count=draws.choice((1, 2, 4)))
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


def is_closed(attempts: tuple[Attempt, ...]) -> bool:
    return bool(attempts) and all(attempt.released_at is not None for attempt in attempts)


def faults_of_sight(sight: Sight, namespace: Namespace, chaos: Chaos) -> list[str]:
    """What did the API server show that must not be?"""
    nodes = namespace.cluster.get("nodes")["items"]
    gpus = sum(int(node["status"]["allocatable"].get(GPU, 0)) for node in nodes)
    found = [f"{run} had two pods at a time" for run in sorted(sight.twice)]
    if sight.most_gpus > gpus:
        found.append(f"pods held {sight.most_gpus} GPUs at a time, of {gpus}")
    if not sight.looks:
        found.append("nobody looked")
    return found


def report(
    seed: int,
    chaos: Chaos,
    sight: Sight,
    attempts: dict[str, tuple[Attempt, ...]],
    lives: int,
    faults: list[str],
) -> str:
    """What happened, for people."""
    ends = Counter(str(a.end_reason) for of_run in attempts.values() for a in of_run)
    lines = [
        f"seed {seed}: {len(attempts)} runs, {sum(ends.values())} attempts, {lives} pods that ran",
        *(f"  {what}" for what in chaos.done),
        f"  ends: {', '.join(f'{count} {end}' for end, count in sorted(ends.items()))}",
        f"  pods seen {sight.looks} times, at most {sight.most_gpus} GPUs",
        f"  {len(faults)} violations",
    ]
    return "\n".join(lines)
