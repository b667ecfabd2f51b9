"""What is measured of a worker in a long story, and what of it grows."""

import math
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil

from tests.support.cluster import Cluster
from tests.support.prefect_stack import PrefectServer

_REQUEST = re.compile(rb'"(?:GET|POST|PATCH|PUT|DELETE) /api/\S* HTTP')
# What may come on top of a third of all samples: caches fill, and requests come in bursts.
_MEMORY = (1.1, 12.0)
_CONNECTIONS = (1.25, 8.0)
_REQUESTS = (1.5, 1.0)
_UNBOUNDED = (1.0, math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One look.

    Attributes:
        connections: Sockets of the worker that are connected.
        work: Cycles and starts until then: each of them asks the APIs something.
        prefect: Requests that Prefect's API has answered, of all clients.
        kubernetes: The same of the Kubernetes API, without those of nodes and controllers.
    """

    memory_mib: float
    connections: int
    work: int
    prefect: int
    kubernetes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Of each measure the first third and the last third of the samples."""

    rows: Sequence[tuple[str, float, float, float]]
    """Measure, early, late, and the most that late may be."""

    @property
    def faults(self) -> tuple[str, ...]:
        """What grew."""
        return tuple(f"{what}: {late:.1f}" for what, _, late, most in self.rows if late > most)

    def __str__(self) -> str:
        return "\n".join(
            f"  {what:<12} {early:.1f} in the first third, {late:.1f} in the last one"
            for what, early, late, _ in self.rows
        )


class Gauges:
    """Reads what is measured."""

    def __init__(self, worker: psutil.Process, server: PrefectServer, cluster: Cluster) -> None:
        self._worker = worker
        self._server = server
        self._cluster = cluster

    def sample(self, cycles: Sequence[dict]) -> Sample:
        """Look now.

        Args:
            cycles: The worker's lines about its cycles until now.
        """
        connections = self._worker.net_connections()
        return Sample(
            memory_mib=self._worker.memory_info().rss / 2**20,
            connections=sum(c.status == psutil.CONN_ESTABLISHED for c in connections),
            work=sum(cycle["cycles"] + cycle["started"] for cycle in cycles),
            prefect=len(_REQUEST.findall(self._server.service.log.read_bytes())),
            kubernetes=self._kubernetes_requests(),
        )

    def _kubernetes_requests(self) -> int:
        metrics = self._cluster.kubectl("get", "--raw", "/metrics").splitlines()
        counted = (line for line in metrics if line.startswith("apiserver_request_total{"))
        return sum(
            int(float(line.rpartition(" ")[2]))
            for line in counted
            # Nodes and controllers renew these, whatever the worker does.
            if 'resource="leases"' not in line and 'resource="nodes"' not in line
        )


def growth(samples: Sequence[Sample], *, is_long: bool) -> Growth:
    """How do the first and the last third of the samples differ?

    Args:
        samples: In their order, three or more.
        is_long: Whether the story is so long that as many containers ended as started in each
            third. Otherwise requests to the cluster's API, which come with either, are only shown.
    """
    third = len(samples) // 3
    early, late = samples[: third + 1], samples[-third - 1 :]

    def row(
        what: str, bound: tuple[float, float], of: Callable[[Sequence[Sample]], float]
    ) -> tuple[str, float, float, float]:
        factor, more = bound
        return what, of(early), of(late), factor * of(early) + more

    return Growth(
        rows=(
            row("MiB", _MEMORY, lambda these: statistics.median(s.memory_mib for s in these)),
            row("connections", _CONNECTIONS, lambda these: max(s.connections for s in these)),
            row("to Prefect", _REQUESTS, lambda these: _each(these, lambda s: s.prefect)),
            row(
                "to the API",
                _REQUESTS if is_long else _UNBOUNDED,
                lambda these: _each(these, lambda s: s.kubernetes),
            ),
        )
    )


def _each(samples: Sequence[Sample], requests: Callable[[Sample], int]) -> float:
    """Requests for each cycle or start between the first and the last of these samples."""
    first, last = samples[0], samples[-1]
    return (requests(last) - requests(first)) / max(1, last.work - first.work)
