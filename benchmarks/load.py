"""Do many runs at once all complete, never on more GPUs than there are, the urgent ones first?

    python -m benchmarks.load [--runs N] [--json FILE]

All runs, of mixed priorities and one GPU each, are in line before the worker starts. Once they are
real flows in Prefect's own engine, once runs that cost nearly nothing, which shows what the
scheduler and Prefect's server can do. PASS or FAIL is about correctness; speed is only reported.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.servers import GPUS, POLICY, databases, prefect_server
from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.attempts import Attempt, EndReason
from tests.end_to_end.conftest import FLOWS, Journal
from tests.support.prefect_stack import Pool, PrefectServer
from tests.support.waiting import wait_for

_QUEUES = ("low", "medium", "high", "critical")
_DEADLINE_S_PER_RUN = 30


@dataclass(frozen=True, slots=True)
class Row:
    """One load: how fast it went, and what was wrong."""

    database: str
    kind: str
    runs: int
    total_s: float
    starts_per_minute: float | None
    most_gpus_at_once: int
    faults: tuple[str, ...]


def main() -> int:
    """Put every load on every database; 0 if nothing was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=100, help="runs of each load (100)")
    parser.add_argument("--json", type=Path, default=Path("bench-results/load.json"))
    options = parser.parse_args()

    circumstances = report.circumstances()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="load-") as folder:
        for database in databases():
            with prefect_server(database, Path(folder, database)) as server:
                rows += [load(server, database, kind, options.runs) for kind in ("tiny", "real")]
    _show(rows)
    report.write(options.json, circumstances, [asdict(row) for row in rows])
    faults = [f"{row.database}, {row.kind} runs: {fault}" for row in rows for fault in row.faults]
    print("\n".join(["FAIL", *faults]) if faults else "PASS")
    return 1 if faults else 0


def load(server: PrefectServer, database: str, kind: str, runs: int) -> Row:
    """Run so many runs of one kind and judge what the ledger and Prefect say about them."""
    print(f"{database}, {runs} {kind} runs ...", flush=True)
    with tempfile.TemporaryDirectory(prefix="pool-", dir=server.folder) as folder:
        pool = Pool(server, Path(folder), POLICY)
        with closing(pool):
            queue_of = _submit(pool, kind, runs, Path(folder))
            began_s = time.monotonic()
            pool.start_worker()
            is_over = _wait_for_all(pool, list(queue_of), runs * _DEADLINE_S_PER_RUN)
            total_s = time.monotonic() - began_s
            with Ledger.open(pool.ledger_url) as ledger:
                attempts = ledger.attempts_of(list(queue_of))
    admitted = sorted(
        (attempt for of_run in attempts.values() for attempt in of_run),
        # What one cycle admits has the cycle's time; between those the order means nothing.
        key=lambda attempt: (attempt.admitted_at, -_urgency(attempt, queue_of)),
    )
    return Row(
        database=database,
        kind=kind,
        runs=runs,
        total_s=round(total_s, 1),
        starts_per_minute=starts_per_minute(admitted),
        most_gpus_at_once=most_gpus_at_once(admitted),
        faults=tuple(judge(admitted, queue_of, is_over=is_over)),
    )


def judge(attempts: Sequence[Attempt], queue_of: Mapping[str, str], *, is_over: bool) -> list[str]:
    """What is wrong with these attempts? Nothing, if all is well.

    Args:
        attempts: All of the load, in the order of their admission.
        queue_of: The queue of each run, by flow run id.
        is_over: Did Prefect see every run complete in time?
    """
    found = []
    if not is_over:
        found.append("not every run completed in time")
    completed = [a.flow_run_id for a in attempts if a.end_reason is EndReason.COMPLETED]
    if sorted(completed) != sorted(queue_of):
        found.append(
            f"{len(completed)} attempts completed, not one of each of {len(queue_of)} runs"
        )
    most = most_gpus_at_once(attempts)
    if most > GPUS:
        found.append(f"{most} GPUs were held at once, of {GPUS}")
    twice = gpus_held_twice(attempts)
    if twice:
        found.append(f"two attempts at a time held {', '.join(twice)}")
    urgencies = [_urgency(attempt, queue_of) for attempt in attempts]
    overtaken = sum(later > earlier for earlier, later in pairwise(urgencies))
    if overtaken:
        found.append(f"{overtaken} times a run was admitted before a more urgent one")
    return found


def most_gpus_at_once(attempts: Sequence[Attempt]) -> int:
    """How many GPUs did the ledger count at the busiest moment?"""
    changes = [(a.admitted_at, a.gpu_count) for a in attempts]
    changes += [(a.released_at, -a.gpu_count) for a in attempts if a.released_at is not None]
    held = most = 0
    # What is released at a moment is free for what is admitted at the same moment.
    for _, change in sorted(changes):
        held += change
        most = max(most, held)
    return most


def gpus_held_twice(attempts: Sequence[Attempt]) -> list[str]:
    """Which GPUs did two attempts hold at the same time? The attempts in order of admission."""
    holders: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        for gpu in attempt.gpu_ids:
            holders.setdefault(gpu, []).append(attempt)
    return sorted(
        gpu
        for gpu, line in holders.items()
        if any(a.released_at is None or a.released_at > b.admitted_at for a, b in pairwise(line))
    )


def starts_per_minute(attempts: Sequence[Attempt]) -> float | None:
    """How fast were these admitted, first to last? None where there is no such span."""
    if not attempts or attempts[0].admitted_at == attempts[-1].admitted_at:
        return None
    span_s = (attempts[-1].admitted_at - attempts[0].admitted_at).total_seconds()
    return round((len(attempts) - 1) / span_s * 60, 1)


def _submit(pool: Pool, kind: str, runs: int, folder: Path) -> dict[str, str]:
    """Put the runs in line, their priorities mixed; the queue of each, by flow run id."""
    variables = Journal(folder / "journal").variables(seconds=0) if kind == "tiny" else {}
    deployments = {
        queue: pool.deploy(f"{FLOWS}:do_nothing", queue, preemptible=False, **variables)
        for queue in _QUEUES
    }
    queues = [_QUEUES[number % len(_QUEUES)] for number in range(runs)]
    return {
        pool.submit(deployments[queue], f"{queue}-{number}"): queue
        for number, queue in enumerate(queues)
    }


def _wait_for_all(pool: Pool, runs: list[str], timeout_s: float) -> bool:
    """Wait until Prefect says that the runs completed and the ledger that their GPUs are free."""
    try:
        wait_for(lambda: pool.count(runs, "Completed") == len(runs), "all complete", timeout_s)
        wait_for(lambda: _all_released(pool, runs), "all GPUs are free again")
    except AssertionError as error:
        print(error, pool.worker_log()[-2000:], sep="\n", file=sys.stderr)
        return False
    return True


def _all_released(pool: Pool, runs: list[str]) -> bool:
    with Ledger.open(pool.ledger_url) as ledger:
        attempts = ledger.attempts_of(runs)
    return all(attempt.released_at for of_run in attempts.values() for attempt in of_run)


def _urgency(attempt: Attempt, queue_of: Mapping[str, str]) -> int:
    return _QUEUES.index(queue_of[attempt.flow_run_id])


def _show(rows: Sequence[Row]) -> None:
    table = Table(title=f"Many runs on {GPUS} GPUs")
    for heading in ("database", "runs", "in all", "starts per minute", "most GPUs"):
        table.add_column(heading, justify="left" if heading == "database" else "right")
    for row in rows:
        table.add_row(
            row.database,
            f"{row.runs} {row.kind}",
            f"{row.total_s:.0f} s",
            "–" if row.starts_per_minute is None else f"{row.starts_per_minute:.0f}",
            f"{row.most_gpus_at_once} of {GPUS}",
        )
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
