"""How many starts a second, with runs in line? Our worker and Prefect's own take turns.

Runs of ours and of Prefect's worker alternate, because a machine that others use is faster at one
time than at another: compared is what was measured within one round. Pods run for a few seconds,
print and end, on simulated nodes; what ends while others start is part of what is measured.
"""

import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.start_rate import starts_per_s
from gpu_core.cli.quickstart.services import Service
from tests.support.cluster import BUSYBOX, Cluster, Namespace, new_namespace
from tests.support.jobs_seen import jobs_seen
from tests.support.prefect_stack import Pool, PrefectServer
from tests.support.waiting import wait_for

FLOW = "tests/end_to_end/flows.py:do_nothing"
SET = "simulated.prefect-gpu/set"
_SIMULATED = "simulated.prefect-gpu/"
RUNS_AND_ENDS = {f"{_SIMULATED}run-for-s": "3", f"{_SIMULATED}log-lines": "10",
                 f"{_SIMULATED}log-every-s": "0.2"}  # fmt: skip
_REQUEST = re.compile(r'"(?:GET|POST|PATCH|PUT|DELETE) /api/\S* HTTP')

POLICY = """
version: 1
prices: {a10g: {on-demand: 1.0}}
kubernetes:
  version: "1.20"
  pod_security: template
  pending_timeout: 24h
  per_gpu: {default: {cpu: 1, memory_gib: 1}}
"""


class Contender(NamedTuple):
    """A worker type, and how often it asks Prefect for runs."""

    worker: str
    poll_s: int


OURS = Contender("gpu-kubernetes", 10)
"""10 s is Prefect's default."""
STOCK = Contender("kubernetes", 10)
CONTENDERS = (OURS, STOCK, Contender("kubernetes", 1))


@dataclass(frozen=True, slots=True)
class Line:
    """What was measured of one worker with runs in line.

    Attributes:
        starts_per_s: Jobs created each second, from the first to the last.
        all_after_s: From when the worker says that it has started to the last Job. A worker that
            prepares all runs before it creates the first Job has many starts a second, late.
        worker_cpu_s_per_start: CPU of the worker from when it says that it has started to the last
            Job; importing not included.
        server_cpu_s_per_start: The same of Prefect's server, without its database.
        prefect_requests_per_start: Requests that Prefect's API got meanwhile, from all clients.
        kubernetes_requests_per_start: The same of the Kubernetes API, the controllers' included.
    """

    worker: str
    poll_s: int
    round: int
    runs: int
    starts_per_s: float
    first_job_after_s: float
    all_after_s: float
    worker_cpu_s_per_start: float
    server_cpu_s_per_start: float
    prefect_requests_per_start: float
    kubernetes_requests_per_start: float


def measure_rounds(
    server: PrefectServer, cluster: Cluster, nodes: str, rounds: int, runs: int
) -> list[Line]:
    """Let each worker start this many runs, one worker after the other, in each round."""
    lines = []
    for number in range(1, rounds + 1):
        for contender in CONTENDERS:
            lines.append(_line(server, cluster, nodes, contender, number, runs))
            print(f"  {lines[-1].starts_per_s:.1f} starts per second", flush=True)
    return lines


def _line(
    server: PrefectServer,
    cluster: Cluster,
    nodes: str,
    contender: Contender,
    number: int,
    runs: int,
) -> Line:
    print(f"round {number}, {contender.worker} polling every {contender.poll_s} s ...", flush=True)
    with pool_of(server, cluster, contender, nodes, RUNS_AND_ENDS) as (pool, deployment, seen_s):
        line = {pool.submit(deployment, f"line-{each}") for each in range(runs)}
        began_s = time.time()
        service = start_worker(pool)
        processes = (service.process.pid, server.service.process.pid)
        gauges: tuple[Callable[[], float], ...] = (
            *(lambda pid=pid: cpu_s(pid) for pid in processes),
            lambda: _prefect_requests(server),
            lambda: _kubernetes_requests(cluster),
        )
        before = [gauge() for gauge in gauges]
        wait_for(lambda: seen_s.keys() >= line, "all have Jobs", 60 + 3.0 * runs)
        taken = [(gauge() - was) / runs for gauge, was in zip(gauges, before, strict=True)]
        at_s = [seen_s[run] for run in line]
    return Line(
        worker=contender.worker,
        poll_s=contender.poll_s,
        round=number,
        runs=runs,
        starts_per_s=starts_per_s(at_s),
        first_job_after_s=round(min(at_s) - began_s, 1),
        all_after_s=round(max(at_s) - began_s, 1),
        worker_cpu_s_per_start=round(taken[0], 3),
        server_cpu_s_per_start=round(taken[1], 3),
        prefect_requests_per_start=round(taken[2], 1),
        kubernetes_requests_per_start=round(taken[3], 1),
    )


def ratios(lines: Sequence[Line], other: Contender) -> list[float]:
    """Our starts per second over those of another worker, round by round."""
    return _within_rounds(lines, other, lambda line: line.starts_per_s)


def ratios_of_waits(lines: Sequence[Line], other: Contender) -> list[float]:
    """Our time from the worker's start to the last Job over another worker's, round by round."""
    return _within_rounds(lines, other, lambda line: line.all_after_s)


def _within_rounds(
    lines: Sequence[Line], other: Contender, measure: Callable[[Line], float]
) -> list[float]:
    found = {(Contender(each.worker, each.poll_s), each.round): measure(each) for each in lines}
    rounds = sorted({number for _, number in found})
    return [round(found[OURS, number] / found[other, number], 2) for number in rounds]


# -- a pool on simulated nodes -------------------------------------------------------------------


@contextmanager
def pool_of(
    server: PrefectServer,
    cluster: Cluster,
    contender: Contender,
    nodes: str,
    annotations: Mapping[str, str],
) -> Iterator[tuple[Pool, str, Mapping[str, float]]]:
    """A pool without a worker, a deployment of container jobs, and when their Jobs were seen."""
    with (
        tempfile.TemporaryDirectory(prefix="pool-", dir=server.folder) as folder,
        _namespace_until_gone(cluster) as namespace,
    ):
        pool = Pool(
            server,
            Path(folder),
            POLICY,
            worker_type=contender.worker,
            poll_s=contender.poll_s,
            edited=lambda template: _edited(template, namespace.name, nodes, annotations),
            environment={
                "KUBECONFIG": str(cluster.kubeconfig),
                "PREFECT_INTEGRATIONS_GPU_KUBERNETES_NAMESPACE": namespace.name,
            },
        )
        with closing(pool), jobs_seen(namespace) as seen_s:
            yield pool, pool.deploy(FLOW, container_command="true"), seen_s


@contextmanager
def _namespace_until_gone(cluster: Cluster) -> Iterator[Namespace]:
    """A namespace whose end is over before the next one is measured."""
    with new_namespace(cluster) as namespace:
        yield namespace
    cluster.kubectl("wait", "--for=delete", f"namespace/{namespace.name}", "--timeout=120s")


def start_worker(pool: Pool) -> Service:
    """Start a worker of the pool; returns when it says that it has started."""
    worker = pool.start_worker(parent="usual")  # a new interpreter, as of users
    wait_for(lambda: "started" in worker.log.read_text(), "the worker started", 120)
    return worker


def _edited(template: dict, namespace: str, nodes: str, annotations: Mapping[str, str]) -> dict:
    """The template with pods that stay on simulated nodes and behave like this."""
    pod = template["job_configuration"]["job_manifest"]["spec"]["template"]
    pod.setdefault("metadata", {})["annotations"] = dict(annotations)
    pod["spec"]["nodeSelector"] = {SET: nodes}
    template["variables"]["properties"]["namespace"]["default"] = namespace
    template["variables"]["properties"]["image"]["default"] = BUSYBOX
    return template


# -- what it takes -------------------------------------------------------------------------------


def cpu_s(pid: int) -> float:
    """The CPU time of a process and of those that it has started and that live."""
    process = psutil.Process(pid)
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def _prefect_requests(server: PrefectServer) -> float:
    """How many requests has the server written to its log?"""
    return float(len(_REQUEST.findall(server.service.log.read_text())))


def _kubernetes_requests(cluster: Cluster) -> float:
    """How many requests has the API server counted?"""
    metrics = cluster.kubectl("get", "--raw", "/metrics").splitlines()
    counted = (each for each in metrics if each.startswith("apiserver_request_total{"))
    return sum(float(each.rpartition(" ")[2]) for each in counted)


# -- tables --------------------------------------------------------------------------------------


def show(lines: Sequence[Line]) -> None:
    """Every value, the medians, and the ratios within a round."""
    table = Table(title=f"Starts a second with {lines[0].runs} runs in line; pods run and end")
    table.add_column("worker")
    for heading in ("polls", "each round", "median", "first Job", "last Job", "its CPU",
                    "the server's", "requests: Prefect", "Kubernetes"):  # fmt: skip
        table.add_column(heading, justify="right")
    for contender in CONTENDERS:
        of_it = [each for each in lines if (each.worker, each.poll_s) == contender]
        rates = [each.starts_per_s for each in of_it]
        table.add_row(
            contender.worker,
            f"{contender.poll_s} s",
            ", ".join(f"{rate:.1f}" for rate in rates),
            f"{statistics.median(rates):.1f}",
            f"{statistics.median(each.first_job_after_s for each in of_it):.1f} s",
            f"{statistics.median(each.all_after_s for each in of_it):.1f} s",
            f"{1000 * statistics.median(each.worker_cpu_s_per_start for each in of_it):.0f} ms",
            f"{1000 * statistics.median(each.server_cpu_s_per_start for each in of_it):.0f} ms",
            f"{statistics.median(each.prefect_requests_per_start for each in of_it):.1f}",
            f"{statistics.median(each.kubernetes_requests_per_start for each in of_it):.1f}",
        )
    console = Console(width=160)
    console.print(table)
    for other in CONTENDERS[1:]:
        for what, found in (
            ("Jobs a second, from the first to the last", ratios(lines, other)),
            ("time from the worker's start to the last Job", ratios_of_waits(lines, other)),
        ):
            console.print(
                f"{OURS.worker} / {other.worker} polling every {other.poll_s} s, {what}: "
                f"median {statistics.median(found):.2f} of {', '.join(map(str, found))}"
            )
