"""How long does a run wait for its start when GPUs are free? Next to Prefect's own process worker.

    python -m benchmarks.start_latency [--runs N] [--json FILE]

From the server's answer to the creation of a flow run to the first line of its process, one run at
a time. All workers of a database run one after another on the same server. Runs come at random
moments between two polls. The first run of each worker warms it up and is not counted.
"""

import argparse
import random
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.servers import POLICY, databases, prefect_server
from tests.support.prefect_stack import Pool, PrefectServer
from tests.support.waiting import wait_for

STAMP = Path(__file__).with_name("stamp.py")
_START_DEADLINE_S = 60.0
_PREFECTS_DEFAULT_POLL_S = 10


@dataclass(frozen=True, slots=True)
class Contender:
    """A worker to measure.

    Attributes:
        worker_type: As Prefect knows it.
        poll_s: How often it asks the server for runs, whatever else wakes it.
        variables: Job variables of its runs.
    """

    worker_type: str
    poll_s: int
    variables: dict[str, object]


CONTENDERS = (
    Contender("gpu-process", _PREFECTS_DEFAULT_POLL_S, {"max_failures": 1}),
    Contender("process", _PREFECTS_DEFAULT_POLL_S, {}),
    Contender("process", 1, {}),
)


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured of one worker on one database."""

    database: str
    worker: str
    poll_s: int
    latencies_s: tuple[float, ...]
    p50_s: float
    p95_s: float
    max_s: float


def main() -> None:
    """Measure every worker on every database, and show the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=30, help="counted runs of each row (30)")
    parser.add_argument("--json", type=Path, default=Path("bench-results/start_latency.json"))
    options = parser.parse_args()

    circumstances = report.circumstances()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="start-latency-") as folder:
        for database in databases():
            with prefect_server(database, Path(folder, database)) as server:
                rows += [measure(server, database, it, options.runs) for it in CONTENDERS]
    _show(rows)
    report.write(options.json, circumstances, [asdict(row) for row in rows])


def measure(server: PrefectServer, database: str, contender: Contender, runs: int) -> Row:
    """Start so many runs, one at a time, and take the time of each."""
    print(
        f"{database}, {contender.worker_type} worker that polls every {contender.poll_s} s ...",
        flush=True,
    )
    moments = random.Random(1)
    with _started(server, contender) as (pool, stamps):
        deployment = pool.deploy(
            "tests/end_to_end/flows.py:do_nothing",
            command=shlex.join([sys.executable, "-I", "-S", str(STAMP), str(stamps)]),
            **contender.variables,
        )
        latencies = []
        for number in range(runs + 1):
            latencies.append(_latency_s(pool, deployment, f"run-{number}", stamps))
            # Otherwise each run would come right after a poll.
            time.sleep(moments.uniform(0, contender.poll_s))
    counted = [round(latency, 3) for latency in latencies[1:]]
    return Row(
        database=database,
        worker=contender.worker_type,
        poll_s=contender.poll_s,
        latencies_s=tuple(counted),
        p50_s=report.percentile(counted, 0.5),
        p95_s=report.percentile(counted, 0.95),
        max_s=max(counted),
    )


@contextmanager
def _started(server: PrefectServer, contender: Contender) -> Iterator[tuple[Pool, Path]]:
    """A pool with its worker, and the file for its runs' stamps."""
    with tempfile.TemporaryDirectory(prefix="pool-", dir=server.folder) as folder:
        pool = Pool(
            server, Path(folder), POLICY, worker_type=contender.worker_type, poll_s=contender.poll_s
        )
        with closing(pool):
            worker = pool.start_worker()
            wait_for(lambda: "started" in worker.log.read_text(), "the worker started")
            yield pool, Path(folder, "stamps")


def _latency_s(pool: Pool, deployment: str, name: str, stamps: Path) -> float:
    run = pool.submit(deployment, name)
    answered_at_s = time.time()
    wait_for(lambda: run in stamps_in(stamps), f"{name} starts", _START_DEADLINE_S)
    # The next run finds all GPUs free. Prefect's own worker has no attempts to wait for.
    wait_for(lambda: all(a.released_at for a in pool.attempts(run)), f"{name} is settled")
    return stamps_in(stamps)[run] - answered_at_s


def stamps_in(path: Path) -> dict[str, float]:
    """When the process of each run was there, by flow run id."""
    if not path.exists():
        return {}
    lines = [line.split() for line in path.read_text().splitlines(keepends=True) if "\n" in line]
    return {run: float(started_at_s) for run, started_at_s in lines}


def _show(rows: Sequence[Row]) -> None:
    table = Table(title="From a run's creation to its process, GPUs free")
    for heading in ("database", "worker", "polls", "runs", "p50", "p95", "longest"):
        is_text = heading in ("database", "worker")
        table.add_column(heading, justify="left" if is_text else "right")
    for row in rows:
        numbers = (f"{value:.2f} s" for value in (row.p50_s, row.p95_s, row.max_s))
        runs = str(len(row.latencies_s))
        table.add_row(row.database, row.worker, f"{row.poll_s} s", runs, *numbers)
    Console().print(table)


if __name__ == "__main__":
    main()
