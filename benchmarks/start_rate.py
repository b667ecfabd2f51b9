"""How many runs a second does a worker start from a queue? Next to Prefect's own process worker.

    python -m benchmarks.start_rate [--runs N] [--json FILE]

All runs are in the queue before the worker starts, there is a GPU for each of them, and each run
only notes when its process was there. Both workers poll every second
(`PREFECT_WORKER_QUERY_SECONDS=1`). The rate is from the first process to the last one, so that the
start of the worker itself does not count. All workers of a database run one after another on the
same server.
"""

import argparse
import shlex
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.servers import databases, policy, prefect_server
from benchmarks.start_latency import STAMP, stamps_in
from tests.support.prefect_stack import Pool, PrefectServer
from tests.support.waiting import wait_for

_POLL_S = 1
_MOST_RUNS = 64  # as many virtual GPUs as a policy may have
_DEADLINE_S_PER_RUN = 10
_WORKERS: dict[str, dict[str, object]] = {"gpu-process": {"max_failures": 1}, "process": {}}


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured of one worker on one database."""

    database: str
    worker: str
    poll_s: int
    runs: int
    starts_per_s: float


def main() -> None:
    """Measure both workers on every database, and show the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10, help="runs in the queue (10)")
    parser.add_argument("--json", type=Path, default=Path("bench-results/start_rate.json"))
    options = parser.parse_args()
    if not 2 <= options.runs <= _MOST_RUNS:
        allowed = f"2 to {_MOST_RUNS}, a virtual GPU for each"
        parser.error(f"argument --runs: got {options.runs}; allowed: {allowed}")

    circumstances = report.circumstances()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="start-rate-") as folder:
        for database in databases():
            with prefect_server(database, Path(folder, database)) as server:
                rows += [measure(server, database, worker, options.runs) for worker in _WORKERS]
    _show(rows)
    report.write(options.json, circumstances, [asdict(row) for row in rows])


def measure(server: PrefectServer, database: str, worker: str, runs: int) -> Row:
    """Start this many runs from the queue, and take the time of each."""
    print(f"{database}, {runs} runs in the queue of a {worker} worker ...", flush=True)
    with tempfile.TemporaryDirectory(prefix="pool-", dir=server.folder) as folder:
        stamps = Path(folder, "stamps")
        pool = Pool(server, Path(folder), policy(runs), worker_type=worker, poll_s=_POLL_S)
        with closing(pool):
            deployment = pool.deploy(
                "tests/end_to_end/flows.py:do_nothing",
                "medium",
                command=shlex.join([sys.executable, "-I", "-S", str(STAMP), str(stamps)]),
                **_WORKERS[worker],
            )
            queued = {pool.submit(deployment, f"run-{number}") for number in range(runs)}
            pool.start_worker()
            wait_for(
                lambda: stamps_in(stamps).keys() >= queued,
                f"all {runs} runs start",
                runs * _DEADLINE_S_PER_RUN,
            )
            rate = starts_per_s(stamps_in(stamps).values())
    return Row(database=database, worker=worker, poll_s=_POLL_S, runs=runs, starts_per_s=rate)


def starts_per_s(moments_s: Iterable[float]) -> float:
    """How many starts a second are these, from the first to the last? Two or more of them."""
    ordered = sorted(moments_s)
    return round((len(ordered) - 1) / (ordered[-1] - ordered[0]), 2)


def _show(rows: Sequence[Row]) -> None:
    table = Table(title="Starts a second from a queue, a GPU for each run")
    for heading in ("database", "worker", "polls", "runs", "starts per second"):
        is_text = heading in ("database", "worker")
        table.add_column(heading, justify="left" if is_text else "right")
    for row in rows:
        numbers = (f"{row.poll_s} s", str(row.runs), f"{row.starts_per_s:.1f}")
        table.add_row(row.database, row.worker, *numbers)
    Console().print(table)


if __name__ == "__main__":
    main()
