"""How fast do runs become Jobs of a cluster? Beside Prefect's own Kubernetes worker.

    python -m tests.bench.kubernetes [--runs N] [--one-by-one N] [--nodes N] [--pods N]

A real API server, kube-scheduler and controller manager; the nodes are simulated, so that pods cost
nothing, and their pods are for ever about to start, so that nothing ends while it is measured. Both
workers have the same Prefect server, cluster and polling. Then: what the worker costs in a cluster
of many nodes and pods of others, while a run starts every few seconds.
"""

import argparse
import asyncio
import random
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import yaml
from rich.console import Console
from rich.table import Table

from gpu_core.adapters.kubernetes import KubernetesApi
from gpu_core.cli.services import Service
from tests.bench import report
from tests.bench.servers import databases, prefect_server
from tests.support.cluster import (
    BUSYBOX,
    Cluster,
    Namespace,
    kubernetes,
    new_namespace,
)
from tests.support.prefect_stack import Pool, PrefectServer, wait_for

_FLOW = "tests/end_to_end/flows.py:do_nothing"
_WORKERS = ("gpu-kubernetes", "kubernetes")
_POLL_S = 10  # Prefect's default
_GPUS_PER_NODE = 8
# prefect-kubernetes sets the first label, ours keeps it.
_RUN_LABEL = r"{.metadata.labels.prefect\.io/flow-run-id}"
_STARTS_LATER = {"simulated.prefect-gpu/start-after-s": "86400"}
_SET = "simulated.prefect-gpu/set"
_START_DEADLINE_S = 120.0
_CREATORS = 16
# While the cost is measured a run starts every so often.
_RUN_EVERY_S = 3.0
_MEASURED_S = 60.0

POLICY = """
version: 1
prices: {a10g: {on-demand: 1.0}}
kubernetes:
  version: "1.20"
  pod_security: template
  pending_timeout: 24h
  per_gpu: {default: {cpu: 1, memory_gib: 1}}
"""


@dataclass(frozen=True, slots=True)
class Speed:
    """What was measured of one worker.

    Attributes:
        latencies_s: From the server's answer to a run's creation to its Job, one run at a time.
        starts_per_s: Jobs created each second, many runs in line, from the first to the last.
        worker_cpu_s_per_start: CPU of the worker from when it says that it has started to the last
            Job of the line; waiting for the lease included, importing not.
        server_cpu_s_per_start: The same of Prefect's server, without its database.
    """

    database: str
    worker: str
    latencies_s: tuple[float, ...]
    p50_s: float
    p95_s: float
    runs: int
    starts_per_s: float
    first_job_after_s: float
    worker_cpu_s_per_start: float
    server_cpu_s_per_start: float


@dataclass(frozen=True, slots=True)
class Cost:
    """What our worker takes of the machine, beside so many nodes and pods."""

    database: str
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
    parser.add_argument("--runs", type=int, default=200, help="runs that are in line (200)")
    parser.add_argument("--one-by-one", type=int, default=20, help="runs one at a time (20)")
    parser.add_argument("--nodes", type=int, default=1000, help="nodes of the large cluster (1000)")
    parser.add_argument("--pods", type=int, default=5000, help="pods of others in it (5000)")
    parser.add_argument("--json", type=Path, default=Path("bench-results/kubernetes.json"))
    options = parser.parse_args()

    circumstances = report.circumstances()
    database = databases()[-1]
    with (
        tempfile.TemporaryDirectory(prefix="bench-kubernetes-") as folder,
        kubernetes("--gpus=0") as cluster,
        prefect_server(database, Path(folder, "prefect")) as server,
    ):
        gpus = options.runs + options.one_by_one + 1
        with cluster.simulated_nodes(*_nodes("bench", -(-gpus // _GPUS_PER_NODE))):
            speeds = [
                _speed(server, database, cluster, worker, options.one_by_one, options.runs)
                for worker in _WORKERS
            ]
            _show_speeds(speeds)
        with cluster.simulated_nodes(*_nodes("large", options.nodes)):
            cost = _cost(server, database, cluster, options.nodes, options.pods)
            _show_cost(cost)
    results = {"speed": [asdict(speed) for speed in speeds], "cost": asdict(cost)}
    report.write(options.json, circumstances, results)


def _nodes(name: str, count: int) -> tuple[int, str, str]:
    return count, f"--name={name}", f"--gpus={_GPUS_PER_NODE}"


# -- speed ---------------------------------------------------------------------------------------


def _speed(
    server: PrefectServer, database: str, cluster: Cluster, worker: str, one_by_one: int, runs: int
) -> Speed:
    print(f"{database}, {worker} worker ...", flush=True)
    moments = random.Random(1)
    with _started(server, cluster, worker, "bench") as (pool, deployment, seen_s):
        latencies = []
        for number in range(one_by_one + 1):
            run = pool.submit(deployment, f"one-{number}")
            answered_s = time.time()
            wait_for(lambda run=run: run in seen_s, "its Job is there", _START_DEADLINE_S)
            latencies.append(round(seen_s[run] - answered_s, 3))
            # Otherwise each run would come right after a poll.
            time.sleep(moments.uniform(0, _POLL_S))
        pool.kill_worker()
        line = [pool.submit(deployment, f"line-{number}") for number in range(runs)]
        # A lease outlives its holder: 10 s until the next worker may act.
        began_s = time.time()
        service = pool.start_worker()
        _wait_until_started(service)
        processes = (service.process.pid, server.service.process.pid)
        cpu_before_s = [_cpu_s(pid) for pid in processes]
        wait_for(lambda: len(seen_s.keys() & set(line)) == runs, "all have Jobs", 60 + 2.0 * runs)
        cpu_s = [_cpu_s(pid) - before for pid, before in zip(processes, cpu_before_s, strict=True)]
        at_s = sorted(seen_s[run] for run in line)
    counted = latencies[1:]
    return Speed(
        database=database,
        worker=worker,
        latencies_s=tuple(counted),
        p50_s=report.percentile(counted, 0.5),
        p95_s=report.percentile(counted, 0.95),
        runs=runs,
        starts_per_s=round((runs - 1) / (at_s[-1] - at_s[0]), 2),
        first_job_after_s=round(at_s[0] - began_s, 1),
        worker_cpu_s_per_start=round(cpu_s[0] / runs, 3),
        server_cpu_s_per_start=round(cpu_s[1] / runs, 3),
    )


@contextmanager
def _started(
    server: PrefectServer, cluster: Cluster, worker_type: str, nodes: str
) -> Iterator[tuple[Pool, str, Mapping[str, float]]]:
    """A pool with its worker, a deployment of container jobs, and when their Jobs were seen."""
    with (
        tempfile.TemporaryDirectory(prefix="pool-", dir=server.folder) as folder,
        new_namespace(cluster) as namespace,
    ):
        pool = Pool(
            server,
            Path(folder),
            POLICY,
            worker_type=worker_type,
            poll_s=_POLL_S,
            edited=lambda template: _edited(template, namespace.name, nodes),
            environment={
                "KUBECONFIG": str(cluster.kubeconfig),
                "PREFECT_INTEGRATIONS_GPU_KUBERNETES_NAMESPACE": namespace.name,
            },
        )
        with closing(pool), _jobs_of(namespace) as seen_s:
            _wait_until_started(pool.start_worker())
            yield pool, pool.deploy(_FLOW, container_command="true"), seen_s


def _wait_until_started(worker: Service) -> None:
    wait_for(lambda: "started" in worker.log.read_text(), "the worker started", 120)


def _edited(template: dict, namespace: str, nodes: str) -> dict:
    """The template with pods that stay on simulated nodes and cost nothing."""
    pod = template["job_configuration"]["job_manifest"]["spec"]["template"]
    pod.setdefault("metadata", {})["annotations"] = _STARTS_LATER
    pod["spec"]["nodeSelector"] = {_SET: nodes}
    template["variables"]["properties"]["namespace"]["default"] = namespace
    template["variables"]["properties"]["image"]["default"] = BUSYBOX
    return template


@contextmanager
def _jobs_of(namespace: Namespace) -> Iterator[Mapping[str, float]]:
    """When the Job of each run was first seen, by flow run id; filled until the block ends."""
    command = namespace.cluster.kubectl_command(
        f"--namespace={namespace.name}", "get", "jobs", "--watch",
        "-o", f'jsonpath={_RUN_LABEL}{{"\\n"}}',
    )  # fmt: skip
    seen_s: dict[str, float] = {}

    def read(lines: Iterator[str]) -> None:
        for line in lines:
            seen_s.setdefault(line.strip(), time.time())

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:
        reader = threading.Thread(target=read, args=(watch.stdout,))
        reader.start()
        try:
            yield seen_s
        finally:
            watch.terminate()
            reader.join()


# -- cost ----------------------------------------------------------------------------------------


def _cost(server: PrefectServer, database: str, cluster: Cluster, nodes: int, pods: int) -> Cost:
    print(f"{database}, {nodes} nodes and {pods} pods of others ...", flush=True)
    with new_namespace(cluster) as others:
        asyncio.run(_create_pods(cluster, others.name, nodes, pods))
        began_s = time.monotonic()
        with _started(server, cluster, "gpu-kubernetes", "large") as (pool, deployment, seen_s):
            first = pool.submit(deployment, "first")
            wait_for(lambda: first in seen_s, "it acts", 300)
            ready_after_s = time.monotonic() - began_s
            worker = _worker_of(pool)
            cpu_before_s, measured_from_s = _cpu_s(worker.pid), time.monotonic()
            started = 0
            while time.monotonic() - measured_from_s < _MEASURED_S:
                pool.submit(deployment, f"run-{started}")
                started += 1
                time.sleep(_RUN_EVERY_S)
            measured_s = time.monotonic() - measured_from_s
            cpu_s, memory = _cpu_s(worker.pid) - cpu_before_s, worker.memory_info().rss
            runs_started = len(seen_s) - 1
    return Cost(
        database=database,
        nodes=nodes,
        pods=pods,
        ready_after_s=round(ready_after_s, 1),
        measured_s=round(measured_s, 1),
        runs_started=runs_started,
        cpu_share=round(cpu_s / measured_s, 3),
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


def _cpu_s(pid: int) -> float:
    """The CPU time of a process and of those that it has started and that live."""
    process = psutil.Process(pid)
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return sum(one.user + one.system for one in times)


# -- tables --------------------------------------------------------------------------------------


def _show_speeds(speeds: Sequence[Speed]) -> None:
    table = Table(title="From a run's creation to its Job, and Jobs a second with a line of runs")
    headings = ("worker", "polls", "p50", "p95", "runs in line", "starts per second")
    for heading in (*headings, "its CPU per start", "the server's"):
        table.add_column(heading, justify="left" if heading == "worker" else "right")
    for speed in speeds:
        times = (f"{value:.2f} s" for value in (speed.p50_s, speed.p95_s))
        polls, rate = f"{_POLL_S} s", f"{speed.starts_per_s:.1f}"
        cpu_s = (speed.worker_cpu_s_per_start, speed.server_cpu_s_per_start)
        cpu = (f"{1000 * value:.0f} ms" for value in cpu_s)
        table.add_row(speed.worker, polls, *times, str(speed.runs), rate, *cpu)
    Console().print(table)


def _show_cost(cost: Cost) -> None:
    Console().print(
        f"{cost.nodes} nodes, {cost.pods} pods, a run every {_RUN_EVERY_S:.0f} s: "
        f"{100 * cost.cpu_share:.0f} % of a core, {cost.memory_mib} MiB; "
        f"its first Job {cost.ready_after_s:.0f} s after its start"
    )


if __name__ == "__main__":
    main()
