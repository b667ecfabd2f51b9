"""Whatever happens: no run is lost, none runs twice, and the ledger has what really happened.

`make chaos` tells longer stories: `PREFECT_GPU_CHAOS_RUNS` runs for each of
`PREFECT_GPU_CHAOS_SEEDS` seeds, a fault for every third run.
"""

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_core.decisions.accounting import Attempt
from tests.cluster.chaos import Chaos, cuttable, uptime_s
from tests.cluster.pools import JOURNALED_RUN, POLICY, kubernetes_pool
from tests.support.chaos_report import Story, report
from tests.support.cluster import GPU, NODE_GRACE_S, Namespace
from tests.support.faults import Kind, agenda
from tests.support.prefect_stack import (
    Pool,
    PrefectServer,
    new_server,
    wait_for,
)
from tests.support.run_journal import faults_of_ledger, faults_of_lives
from tests.support.sight import Sight, watched

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
# Nobody may wait in vain, but a busy machine takes its time to start a pod.
PATIENT = POLICY.replace("pending_timeout: 20s", "pending_timeout: 180s")
# Before that nobody gives up what is on a node that does not answer: it is silent so long after its
# last heartbeat, four of which come in that time, and fenced off 15 s later.
FENCED_AFTER_S = NODE_GRACE_S * 3 / 4 + 15


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, postgresql: str) -> Iterator[PrefectServer]:
    """A Prefect server that may be restarted."""
    with new_server(tmp_path_factory.mktemp("prefect-in-chaos"), postgresql) as running:
        yield running


@pytest.fixture
def chaos(server: PrefectServer, namespace: Namespace, tmp_path: Path) -> Iterator[Chaos]:
    with cuttable(namespace.cluster, tmp_path) as (cluster, line):
        over_line = Namespace(cluster, namespace.name)
        pool = kubernetes_pool(server, over_line, tmp_path / "pool", PATIENT)
        yield Chaos(pool, server, namespace, line)
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
    story = replace(story, violations=[*left, *violations(story, pool, chaos.outages_s)])
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


def violations(story: Story, pool: Pool, outages_s: Sequence[tuple[float, float]]) -> Iterator[str]:
    """What was it that must not be? By the runs' own journal, the cluster, Prefect, the ledger."""
    runs = list(story.attempts)
    fences_s = [(begin, end) for begin, end in outages_s if end - begin >= FENCED_AFTER_S]
    yield from faults_of_lives(story.lives, runs, story.saving, fences_s)
    yield from faults_of_ledger(story.lives, story.attempts, runs, outages_s)
    yield from faults_of_sight(story.sight, story.gpus, story.attempts)
    for run in runs:
        yield from faults_of_states(run, [state["name"] for state in pool.states(run)])
    if not pool.worker_lives():
        yield "the worker ended by itself"
    struck = {deed.kind for deed in story.deeds if deed.has_struck}
    yield from (f"no {kind} struck" for kind in {deed.kind for deed in story.deeds} - struck)


def faults_of_sight(
    sight: Sight, gpus: int, attempts: Mapping[str, Sequence[Attempt]]
) -> Iterator[str]:
    """What did the API server show that must not be?"""
    yield from (f"{run} had two pods at a time" for run in sorted(sight.twice))
    known = {(a.flow_run_id, a.attempt_id) for of_run in attempts.values() for a in of_run}
    for run, attempt in sorted(sight.ran - known):
        yield f"{run} had a pod of attempt {attempt}, which is not in the ledger"
    if sight.most_gpus > gpus:
        pods = "; ".join(sight.fullest)
        yield f"pods held {sight.most_gpus} GPUs at a time, of {gpus}: {pods}"
    if not sight.looks:
        yield "nobody looked"


def faults_of_states(run: str, states: Sequence[str]) -> Iterator[str]:
    """What did Prefect note of this run that must not be?"""
    if "Completed" not in states:
        yield f"{run} never completed: {', '.join(states)}"
    elif set(states[states.index("Completed") :]) != {"Completed"}:
        yield f"{run} went on after it had completed: {', '.join(states)}"
