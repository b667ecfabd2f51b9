"""How fast do runs become Jobs of a cluster? Next to Prefect's own Kubernetes worker.

    python -m benchmarks.kubernetes [--rounds N] [--runs N] [--one-by-one N] [--nodes N] [--pods N]

A real API server, kube-scheduler and controller manager; the nodes are simulated, so that pods cost
nothing. Our worker and Prefect's, which polls as often and again every second, have the same
Prefect server and cluster, and take turns with runs in line. Then: how long a run waits for its
Job, one run at a time; and what our worker costs in a cluster of many nodes and pods of others,
while a run starts every few seconds. A part whose number is 0 is left out.
"""

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import yaml
from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.cluster_starts import (
    CONTENDERS,
    OURS,
    RUNS_AND_ENDS,
    Contender,
    cpu_s,
    measure_rounds,
    pool_of,
    show,
    start_worker,
)
from benchmarks.servers import databases, prefect_server
from gpu_core.adapters.kubernetes import KubernetesApi
from tests.support.cluster import BUSYBOX, Cluster, kubernetes, new_namespace
from tests.support.prefect_stack import Pool, PrefectServer
from tests.support.waiting import wait_for

_GPUS_PER_NODE = 8
_STARTS_LATER = {"simulated.prefect-gpu/start-after-s": "86400"}
_START_DEADLINE_S = 120.0
_CREATORS = 16
# While the cost is measured a run starts every so often.
_RUN_EVERY_S = 3.0
_MEASURED_S = 60.0
# The server's log then has a line for each request.
_COUNTING = {"PREFECT_SERVER_LOGGING_LEVEL": "INFO"}


@dataclass(frozen=True, slots=True)
class Latency:
    """How long runs waited for their Jobs, one run at a time.

    Attributes:
        latencies_s: From the server's answer to a run's creation to its Job.
    """

    worker: str
    poll_s: int
    latencies_s: tuple[float, ...]
    p50_s: float
    p95_s: float


@dataclass(frozen=True, slots=True)
class Cost:
    """What our worker takes of the machine, with so many nodes and pods."""

    nodes: int
    pods: int
    ready_after_s: float
    measured_s: float
    runs_started: int
    cpu_share: float
    memory_mib: int


def main() -> None:
    """Measure, show the tables, write the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="rounds with runs in line (5)")
    parser.add_argument("--runs", type=int, default=100, help="runs that are in line (100)")
    parser.add_argument("--one-by-one", type=int, default=20, help="runs one at a time (20)")
    parser.add_argument("--nodes", type=int, default=1000, help="nodes of the large cluster (1000)")
    parser.add_argument("--pods", type=int, default=5000, help="pods of others in it (5000)")
    parser.add_argument("--json", type=Path, default=Path("bench-results/kubernetes.json"))
    options = parser.parse_args()

    circumstances = report.circumstances()
    database = databases()[-1]
    results: dict[str, object] = {"database": database}
    with (
        tempfile.TemporaryDirectory(prefix="bench-kubernetes-") as folder,
        kubernetes("--gpus=0") as cluster,
        prefect_server(database, Path(folder, "prefect"), _COUNTING) as server,
    ):
        gpus = max(options.runs, options.one_by_one + 1)
        with cluster.simulated_nodes(*_nodes("bench", -(-gpus // _GPUS_PER_NODE))):
            if options.rounds:
                lines = measure_rounds(server, cluster, "bench", options.rounds, options.runs)
                show(lines)
                results["lines"] = [asdict(line) for line in lines]
            if options.one_by_one:
                latencies = [
                    _latency(server, cluster, contender, options.one_by_one)
                    for contender in CONTENDERS
                ]
                _show_latencies(latencies)
                results["latencies"] = [asdict(latency) for latency in latencies]
        if options.nodes:
            with cluster.simulated_nodes(*_nodes("large", options.nodes)):
                cost = _cost(server, cluster, options.nodes, options.pods)
            _show_cost(cost)
            results["cost"] = asdict(cost)
    report.write(options.json, circumstances, results)


def _nodes(name: str, count: int) -> tuple[int, str, str]:
    return count, f"--name={name}", f"--gpus={_GPUS_PER_NODE}"


# -- latency -------------------------------------------------------------------------------------


def _latency(server: PrefectServer, cluster: Cluster, contender: Contender, runs: int) -> Latency:
    print(f"{runs} runs, {contender.worker} every {contender.poll_s} s ...", flush=True)
    moments = random.Random(1)
    with pool_of(server, cluster, contender, "bench", RUNS_AND_ENDS) as (pool, deployment, seen_s):
        start_worker(pool)
        latencies = []
        for number in range(runs + 1):
            run = pool.submit(deployment, f"one-{number}")
            answered_s = time.time()
            wait_for(lambda run=run: run in seen_s, "its Job is there", _START_DEADLINE_S)
            latencies.append(round(seen_s[run] - answered_s, 3))
            # Otherwise each run would come right after a poll.
            time.sleep(moments.uniform(0, contender.poll_s))
    counted = latencies[1:]
    return Latency(
        worker=contender.worker,
        poll_s=contender.poll_s,
        latencies_s=tuple(counted),
        p50_s=report.percentile(counted, 0.5),
        p95_s=report.percentile(counted, 0.95),
    )


# -- cost ----------------------------------------------------------------------------------------


def _cost(server: PrefectServer, cluster: Cluster, nodes: int, pods: int) -> Cost:
    print(f"{nodes} nodes and {pods} pods of others ...", flush=True)
    with new_namespace(cluster) as others:
        asyncio.run(_create_pods(cluster, others.name, nodes, pods))
        began_s = time.monotonic()
        with pool_of(server, cluster, OURS, "large", _STARTS_LATER) as (pool, deployment, seen_s):
            start_worker(pool)
            first = pool.submit(deployment, "first")
            wait_for(lambda: first in seen_s, "it acts", 300)
            ready_after_s = time.monotonic() - began_s
            worker = _worker_of(pool)
            cpu_before_s, measured_from_s = cpu_s(worker.pid), time.monotonic()
            started = 0
            while time.monotonic() - measured_from_s < _MEASURED_S:
                pool.submit(deployment, f"run-{started}")
                started += 1
                time.sleep(_RUN_EVERY_S)
            measured_s = time.monotonic() - measured_from_s
            taken_s, memory = cpu_s(worker.pid) - cpu_before_s, worker.memory_info().rss
            runs_started = len(seen_s) - 1
    return Cost(
        nodes=nodes,
        pods=pods,
        ready_after_s=round(ready_after_s, 1),
        measured_s=round(measured_s, 1),
        runs_started=runs_started,
        cpu_share=round(taken_s / measured_s, 3),
        memory_mib=memory >> 20,
    )


async def _create_pods(cluster: Cluster, namespace: str, nodes: int, pods: int) -> None:
    """Pods of others with half a CPU each, spread evenly; bound at once, without the scheduler."""
    api = await KubernetesApi.connect(yaml.safe_load(cluster.kubeconfig.read_text()))
    numbers = iter(range(pods))

    async def create() -> None:
        for number in numbers:
            await api.create(f"/api/v1/namespaces/{namespace}/pods", _pod(number, nodes))

    try:
        await asyncio.gather(*(create() for _ in range(_CREATORS)))
    finally:
        await api.close()


def _pod(number: int, nodes: int) -> dict:
    container = {
        "name": "main",
        "image": BUSYBOX,
        "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}},
    }
    spec = {"nodeName": f"large-{number % nodes}", "containers": [container]}
    metadata = {"name": f"other-{number}", "annotations": _STARTS_LATER}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _worker_of(pool: Pool) -> psutil.Process:
    """The process of the pool's worker."""
    name = pool.name
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            command = process.cmdline()
            if "worker" in command and name in command:
                return process
    raise LookupError(f"no worker of pool {name} runs")


# -- tables --------------------------------------------------------------------------------------


def _show_latencies(latencies: Sequence[Latency]) -> None:
    table = Table(title="From a run's creation to its Job, one run at a time")
    for heading in ("worker", "polls", "runs", "p50", "p95"):
        table.add_column(heading, justify="left" if heading == "worker" else "right")
    for each in latencies:
        times = (f"{value:.2f} s" for value in (each.p50_s, each.p95_s))
        table.add_row(each.worker, f"{each.poll_s} s", str(len(each.latencies_s)), *times)
    Console().print(table)


def _show_cost(cost: Cost) -> None:
    Console().print(
        f"{cost.nodes} nodes, {cost.pods} pods, a run every {_RUN_EVERY_S:.0f} s: "
        f"{100 * cost.cpu_share:.0f}% of a core, {cost.memory_mib} MiB; "
        f"its first Job {cost.ready_after_s:.0f} s after its start"
    )


if __name__ == "__main__":
    main()
