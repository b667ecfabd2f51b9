"""How late are the lines of many containers, whose logs are followed at the same time?

    python -m benchmarks.log_streams [--streams N] [--nodes N]

The worker's own follower, which reads in turns over a bounded number of connections, next to one
that keeps a connection for each log, of which a client has 100 (aiohttp's `TCPConnector.limit`). A
real API server reads the output from simulated kubelets. All containers print a line every two
seconds for a minute.
"""

import argparse
import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks import report
from gpu_core.worker.kubernetes.logs.output import CONNECTIONS
from tests.support.cluster import Cluster, kubernetes, new_namespace
from tests.support.log_streams import Received, follow_new_pods, printing_pods

_LINE_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class Followed:
    """What came of following so many logs.

    Attributes:
        connections: At most so many logs were read at a time; None: as many as the client allows.
        wrong_logs: Of which a line is missing, came twice or in another order.
        p50_s: From when a line was printed until the follower had it.
        longest_s: Of the last one.
        took_s: From the first pod's creation until all was read.
        cpu_s: Of the follower's process, the creation of the pods included.
    """

    follower: str
    connections: int | None
    streams: int
    lines: int
    wrong_logs: int
    p50_s: float
    p99_s: float
    longest_s: float
    took_s: float
    cpu_s: float


def main() -> None:
    """Measure both, show the table, write the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--streams", type=int, default=2000, help="logs at the same time (2000)")
    parser.add_argument("--nodes", type=int, default=20, help="simulated nodes (20)")
    parser.add_argument("--json", type=Path, default=Path("bench-results/log_streams.json"))
    options = parser.parse_args()

    circumstances = report.circumstances()
    with (
        kubernetes("--gpus=0") as cluster,
        cluster.simulated_nodes(options.nodes, "--name=streams", "--gpus=0"),
    ):
        rows = [
            _measured(cluster, name, connections, options.streams, options.nodes)
            for name, connections in (("in turns", CONNECTIONS), ("one each", None))
        ]
    _show(rows)
    report.write(options.json, circumstances, [asdict(row) for row in rows])


def _measured(
    cluster: Cluster, name: str, connections: int | None, streams: int, nodes: int
) -> Followed:
    print(f"{streams} logs, {name} ...", flush=True)
    pods = printing_pods(
        streams, [f"streams-{number}" for number in range(nodes)], line_every_s=_LINE_EVERY_S
    )
    process = psutil.Process()
    with new_namespace(cluster) as namespace:
        began_s, cpu_before = time.monotonic(), process.cpu_times()
        reported = asyncio.run(
            follow_new_pods(cluster, namespace.name, pods, connections=connections)
        )
        took_s, cpu = time.monotonic() - began_s, process.cpu_times()
    return Followed(
        follower=name,
        connections=connections,
        streams=streams,
        took_s=round(took_s, 1),
        cpu_s=round(cpu.user + cpu.system - cpu_before.user - cpu_before.system, 1),
        **_of_lines(reported),
    )


def _of_lines(reported: Mapping[str, Received]) -> dict[str, float]:
    waits_s = [wait_s for of_pod in reported.values() for wait_s in of_pod.waits_s]
    return {
        "lines": len(waits_s),
        "wrong_logs": sum(not of_pod.is_complete for of_pod in reported.values()),
        "p50_s": round(report.percentile(waits_s, 0.5), 1),
        "p99_s": round(report.percentile(waits_s, 0.99), 1),
        "longest_s": round(max(waits_s), 1),
    }


def _show(rows: Sequence[Followed]) -> None:
    table = Table(title=f"{rows[0].streams} logs: seconds from a line's printing until it is read")
    for heading in (
        "follower",
        "reads",
        "lines",
        "wrong",
        "p50",
        "p99",
        "max",
        "CPU",
        "took",
    ):
        table.add_column(heading, justify="left" if heading == "follower" else "right")
    for row in rows:
        seconds = (row.p50_s, row.p99_s, row.longest_s, row.cpu_s, row.took_s)
        table.add_row(
            *(row.follower, str(row.connections or 100), f"{row.lines:,}", str(row.wrong_logs)),
            *(f"{value:.1f}" for value in seconds),
        )
    Console().print(table)


if __name__ == "__main__":
    main()
