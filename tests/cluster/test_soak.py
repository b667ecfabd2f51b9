"""A full pool for long: nothing of its worker grows, and no cycle computes for long.

`make chaos` keeps 500 containers running and 1,000 in the queue for two hours
(`PREFECT_GPU_SOAK_RUNNING`, `PREFECT_GPU_SOAK_QUEUED`, `PREFECT_GPU_SOAK_MINUTES`). The containers
are simulated, end after a while, and others take their places. Judged is what a busy machine does
not change: memory, connections, requests for each cycle and start, and the CPU time of cycles.
"""

import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path

import psutil
import pytest

from benchmarks.load import gpus_held_twice
from benchmarks.report import percentile
from gpu_core.decisions.model.attempts import Attempt, EndReason
from tests.cluster.simulated_pool import FLOW, simulated_pool
from tests.support.cluster import Namespace
from tests.support.cycles import cycles_in, longest
from tests.support.prefect_stack import Pool, PrefectServer, new_server
from tests.support.soak import Gauges, Sample, growth
from tests.support.waiting import wait_for

RUNNING = int(os.environ.get("PREFECT_GPU_SOAK_RUNNING", "16"))
QUEUED = int(os.environ.get("PREFECT_GPU_SOAK_QUEUED", "24"))
MINUTES = float(os.environ.get("PREFECT_GPU_SOAK_MINUTES", "1.5"))
LONG_MINUTES = 30
SAMPLES, LEAST_SAMPLES = 18, 6
# A busy server takes seconds for each: a sample must not wait for the whole queue.
SUBMITTED_AT_ONCE = 8
# A container each second ends, and another one starts.
LIFE_S = max(20, RUNNING)
LINES = 10
GPUS_PER_NODE = 8
MOST_CYCLE_CPU_S = 1.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, postgresql: str) -> Iterator[PrefectServer]:
    """A Prefect server whose log has a line for each request."""
    settings = {"PREFECT_SERVER_LOGGING_LEVEL": "INFO"}
    folder = tmp_path_factory.mktemp("prefect-in-soak")
    with new_server(folder, postgresql, settings) as running:
        yield running


@pytest.mark.postgresql
@pytest.mark.timeout(900 + 10 * (RUNNING + QUEUED) + 120 * MINUTES)
def test_a_full_pool_keeps_its_memory_connections_requests_and_the_cpu_of_its_cycles(
    server: PrefectServer, namespace: Namespace, tmp_path: Path
) -> None:
    nodes = -(-RUNNING // GPUS_PER_NODE)
    gpus = nodes * GPUS_PER_NODE
    with namespace.cluster.simulated_nodes(nodes, "--name=soak", f"--gpus={GPUS_PER_NODE}"):
        pool = simulated_pool(server, namespace, tmp_path / "pool", "soak", ttl_s=60)
        pool.environment["PREFECT_INTEGRATIONS_GPU_LOG_FORMAT"] = "json"
        try:
            line = Line(pool)
            line.fill()
            worker = pool.start_worker()
            wait_for(
                lambda: line.fill() or line.count("COMPLETED") >= RUNNING,
                *("others are in the places of the first ones", 120 + 4 * RUNNING),
            )
            gauges = Gauges(psutil.Process(worker.process.pid), server, namespace.cluster)
            samples = list(sampled(line, lambda: gauges.sample(cycles_in(pool.worker_log()))))
            assert pool.worker_lives()
            attempts = settled(line)
            cycles = cycles_in(pool.worker_log())
        finally:
            pool.close()
            pool.print_logs()

    cycle_cpu_s = [cycle["longest_cpu_s"] for cycle in cycles]
    cycle_s = [cycle["longest_s"] for cycle in cycles]
    ends = Counter(attempt.end_reason for attempt in attempts)
    ended = ", ".join(f"{count} {end or 'open'}" for end, count in ends.items())
    late = cycles[len(cycles) // 3 :]
    at_once, queued = (statistics.median(c[what] for c in late) for what in ("running", "pending"))
    waits_s = [
        (each.started_at - each.admitted_at).total_seconds()
        for each in attempts[len(attempts) // 3 :]
        if each.started_at is not None
    ]
    holding = [each for each in attempts if each.released_at is None]
    started = [each for each in holding if each.started_at is not None]
    load = ", ".join(f"{load:.1f}" for load in psutil.getloadavg())
    found = growth(samples, is_long=MINUTES >= LONG_MINUTES)
    print(
        f"\nsoak: {at_once:.0f} containers on {gpus} GPUs, {queued:.0f} queued, "
        f"{MINUTES:g} minutes, load {load}\n"
        f"  attempts     {ended}\n"
        f"  starts       {len(started)} of {len(holding)} that hold GPUs have started; "
        f"{statistics.median(waits_s):.1f} s after admission, "
        f"p99 {percentile(waits_s, 0.99):.1f} s\n"
        f"  cycles       {sum(cycle['cycles'] for cycle in cycles)}, CPU p99 "
        f"{percentile(cycle_cpu_s, 0.99):.3f} s, time p50 {statistics.median(cycle_s):.3f} s, "
        f"p99 {percentile(cycle_s, 0.99):.3f} s; the longest one: {longest(cycles)}\n"
        f"{found}"
    )
    assert set(ends) <= {EndReason.COMPLETED, None}
    assert ends[EndReason.COMPLETED] >= MINUTES  # others took their places
    for node, on_node in by_node(attempts).items():
        held = [(each.gpu_ids, each.admitted_at, each.released_at) for each in on_node]
        assert gpus_held_twice(on_node) == [], (node, held)
    # Otherwise a queue of starts held the GPUs, and the story was of few containers.
    assert len(started) >= len(holding) / 2
    assert found.faults == ()
    assert "Unclosed" not in pool.worker_log()
    # Each number is of the longest of several cycles, and holds what the worker does meanwhile: on
    # a busy machine that is more. A short story has too few of them for a 99th percentile.
    judged = 0.99 if MINUTES >= LONG_MINUTES else 0.5
    assert percentile(cycle_cpu_s, judged) < MOST_CYCLE_CPU_S


class Line:
    """The runs of the pool; some always wait."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._deployment = pool.deploy(FLOW, container_command="train")
        self.runs: list[str] = []

    def fill(self) -> None:
        """Submit what is missing in the queue; before anything runs, what is to run too."""
        wanted = QUEUED + (0 if self.runs else RUNNING)
        missing = wanted - self.count("SCHEDULED")
        for _ in range(min(missing, SUBMITTED_AT_ONCE) if self.runs else missing):
            self._submit()

    def _submit(self) -> None:
        number = len(self.runs)
        # The first ones start together and end one after the other, as later ones do.
        life_s = max(LINES, LIFE_S * min(number + 1, RUNNING) / RUNNING)
        behavior = {
            "run_for_s": f"{life_s:g}",
            "log_lines": str(LINES),
            "log_every_s": f"{life_s / LINES:g}",
        }
        self.runs.append(self._pool.submit(self._deployment, f"run-{number}", **behavior))

    def attempts(self) -> list[Attempt]:
        """All their attempts, from the ledger."""
        return [each for of_run in self._pool.attempts_of(self.runs).values() for each in of_run]

    def count(self, state_type: str) -> int:
        """How many of them are in a state of this type?"""
        body = {
            "deployments": {"id": {"any_": [self._deployment]}},
            "flow_runs": {"state": {"type": {"any_": [state_type]}}},
        }
        count = self._pool.call("POST", "/flow_runs/count", body)
        assert isinstance(count, int)
        return count


def by_node(attempts: Sequence[Attempt]) -> dict[str, list[Attempt]]:
    """The attempts of each node in the order of their admission."""
    nodes: dict[str, list[Attempt]] = {}
    for attempt in sorted(attempts, key=lambda attempt: attempt.admitted_at):
        nodes.setdefault(attempt.node, []).append(attempt)
    return nodes


def settled(line: Line) -> list[Attempt]:
    """All attempts until now, once each of them has an end whose GPUs a later one has.

    The GPUs of a pod that has ended are free at once. Its end is written when its run's state is,
    which takes a busy server seconds; the end is then the pod's own. Attempts that are admitted
    meanwhile are left out: on a busy machine some end is always on its way.
    """
    attempts = line.attempts()
    known = {each.attempt_id for each in attempts}

    def is_settled() -> bool:
        attempts[:] = (each for each in line.attempts() if each.attempt_id in known)
        return not unsettled(attempts)

    wait_for(is_settled, lambda: f"ended, as others have their GPUs: {unsettled(attempts)}")
    return attempts


def unsettled(attempts: Sequence[Attempt]) -> list[str]:
    """Which attempts have no end in the ledger although a later one has their GPUs?"""
    return [
        earlier.attempt_id
        for on_node in by_node(attempts).values()
        for earlier, later in combinations(on_node, 2)
        if earlier.released_at is None and set(earlier.gpu_ids) & set(later.gpu_ids)
    ]


def sampled(line: Line, sample: Callable[[], Sample]) -> Iterator[Sample]:
    """A sample now and then, while the queue is kept full."""
    yield sample()
    end_s = time.monotonic() + MINUTES * 60
    taken = 1
    while time.monotonic() < end_s or taken < LEAST_SAMPLES:
        next_s = time.monotonic() + MINUTES * 60 / SAMPLES
        line.fill()
        while time.monotonic() < next_s:
            line.fill()
            time.sleep(1.0)
        yield sample()
        taken += 1
