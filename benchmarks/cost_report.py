"""How long do the reports of a month of 100,000 attempts take, as people call them?

    python -m benchmarks.cost_report --out bench-results/cost_report.json
    python -m benchmarks.cost_report --ledger postgresql+psycopg://USER@HOST/EMPTY_DATABASE

The month is generated: 2,000 machines that come and go, six of ten attempts on spot, one of ten of
these interrupted, a price that changed under one attempt of ten, and a gang on two nodes in twenty.
Each report is a process of its own; its CPU time is without that of a database server.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from benchmarks.report import circumstances, write
from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityChanges, CapacityInterval
from gpu_core.decisions.model.attempts import Attempt, EndReason, Provenance, RunRecord
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.model.prices import PriceChange, Rates

Record = tuple[RunRecord, tuple[Attempt, ...]]

START = datetime(2026, 3, 1, tzinfo=UTC)
_DAYS = 31
_PRICES = {"spot": 1_080_000, "on-demand": 3_430_000}
"""Of an A100 in micro-USD per hour: spot and on-demand of a large provider in 2026."""
_GPUS = 8
"""Of a machine."""
_GOAL_S = 5.0
_BATCH = 5000

REPORTS = {
    "report by team": ("report", "month", "--day", "2026-03-05"),
    "report by team, deployment and capacity type": (
        "report", "month", "--day", "2026-03-05", "--by", "team,deployment,capacity-type",
    ),
    "report by run": ("report", "month", "--day", "2026-03-05", "--by", "run"),
    "savings": ("savings", "--month", "2026-03"),
    "export, without a goal": ("export", "month", "--day", "2026-03-05"),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Took:
    """What a report took."""

    cpu_s: float
    wall_s: float
    peak_mib: float


def records(count: int, machines: int, seed: int = 1) -> Iterator[Record]:
    """Runs with one attempt each, in the order in which they begin. No GPU has two at once."""
    chance, busy = Random(seed), _Busy(machines)
    starts = sorted(chance.randrange(_DAYS * 86_400) for _ in range(count))
    for number, start_s in enumerate(starts):
        run_id = f"run-{number}"
        begins = START + timedelta(seconds=start_s)
        ends = begins + timedelta(seconds=chance.randrange(600, 20_000))
        terms = "spot" if chance.random() < 0.6 else "on-demand"
        is_interrupted = terms == "spot" and chance.random() < 0.1
        gpus = chance.choice([1, 1, 2, 4])
        shares = [busy.share(chance, gpus, begins, ends)]
        if chance.random() < 0.05:
            shares.append(busy.share(chance, gpus, begins, ends))
        ids = tuple(gpu_id for share in shares for gpu_id in share.gpu_ids)
        change = PriceChange(
            since=begins + (ends - begins) / 2,
            rates=Rates(gpu_micro_usd_per_hour=_PRICES[terms] + 10_000, source="catalog"),
        )
        attempt = Attempt(
            attempt_id=f"{run_id}/1",
            flow_run_id=run_id,
            number=1,
            pool="gpus",
            host="host-1",
            node=shares[0].node,
            gpu_type=chance.choice(["a100-80gb", "a10g"]),
            gpu_ids=ids,
            shares=tuple(shares),
            gpu_quantity=Fraction(len(ids)),
            capacity_type=terms,
            price_micro_usd_per_gpu_hour=_PRICES[terms],
            price_source="catalog",
            later_prices=(change,) if chance.random() < 0.1 else None,
            admitted_at=begins,
            bound_at=begins,
            started_at=begins + timedelta(seconds=30),
            released_at=ends,
            end_reason=EndReason.INTERRUPTED if is_interrupted else EndReason.COMPLETED,
            gpu_summaries=tuple(
                GpuSummary(gpu_id=each, samples=900, memory_used_max_bytes=chance.randrange(2**34))
                for each in ids
            ),
        )
        yield _run(run_id, number, begins), (attempt,)


class _Busy:
    """Until when the GPUs of each machine are held."""

    def __init__(self, machines: int) -> None:
        self._until = [[START] * _GPUS for _ in range(machines)]

    def share(self, chance: Random, gpus: int, begins: datetime, ends: datetime) -> NodeShare:
        """GPUs of a machine that has so many free."""
        while True:
            machine = chance.randrange(len(self._until))
            until = self._until[machine]
            free = [place for place in range(_GPUS) if until[place] <= begins][:gpus]
            if len(free) == gpus:
                break
        for place in free:
            until[place] = ends
        return NodeShare(node=f"node-{machine}", gpu_ids=tuple(f"GPU-{place}" for place in free))


def _run(run_id: str, number: int, submitted_at: datetime) -> RunRecord:
    return RunRecord(
        flow_run_id=run_id,
        name=run_id,
        flow_name="train",
        deployment=f"train/{number % 50}",
        pool="gpus",
        queue="medium",
        team=f"team-{number % 20}",
        user=None,
        project=None,
        experiment=None,
        model=None,
        workload_type="training",
        priority=100,
        submitted_at=submitted_at,
        provenance=Provenance.GENERATED,
    )


def machines_of_month(count: int, seed: int = 2) -> tuple[CapacityInterval, ...]:
    """Machines with eight GPUs, for an hour to two days."""
    chance = Random(seed)
    found = []
    for number in range(count):
        since = START + timedelta(seconds=chance.randrange(_DAYS * 86_400))
        until = since + timedelta(seconds=chance.randrange(3_600, 200_000))
        terms = chance.choice(sorted(_PRICES))
        found.append(
            CapacityInterval(
                interval_id=f"machine-{number}",
                host="host-1",
                pool="gpus",
                node=f"node-{number}",
                capacity_type=terms,
                gpu_type="a100-80gb",
                gpus=_GPUS,
                micro_usd_per_hour=_GPUS * _PRICES[terms],
                price_source="catalog",
                since=since,
                until=until,
                seen_at=until,
            )
        )
    return tuple(found)


def fill(url: str, attempts: int, machines: int) -> None:
    """Write the month into an empty ledger."""
    with Ledger.open(url) as ledger:
        of_month = records(attempts, machines)
        while batch := list(islice(of_month, _BATCH)):
            ledger.import_records(batch)
        intervals = machines_of_month(machines)
        ledger.write_capacity(CapacityChanges((), intervals), (), START + timedelta(days=_DAYS))


def took(url: str, arguments: tuple[str, ...]) -> Took:
    """What does this command take?"""
    command = [sys.executable, "-m", "gpu_core.cli", "cost", *arguments, "--with-generated"]
    before, began = _children(), time.monotonic()
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"PREFECT_GPU_LEDGER": url}
    )
    wall_s, after = time.monotonic() - began, _children()
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took(cpu_s=cpu_s, wall_s=wall_s, peak_mib=after.ru_maxrss / 1024)


def _children() -> resource.struct_rusage:
    return resource.getrusage(resource.RUSAGE_CHILDREN)


def main() -> None:
    """Fill a ledger, report it, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempts", type=int, default=100_000)
    parser.add_argument("--machines", type=int, default=2_000)
    parser.add_argument("--ledger", default=None, help="An empty database; default: a SQLite file")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    around = circumstances()
    with TemporaryDirectory() as folder:
        url = options.ledger or f"sqlite:///{folder}/ledger.db"
        fill(url, options.attempts, options.machines)
        results = {name: took(url, arguments) for name, arguments in REPORTS.items()}
    for name, found in results.items():
        print(
            f"{name}: {found.cpu_s:.1f} s of CPU time, {found.wall_s:.1f} s, "
            f"at most {found.peak_mib:,.0f} MiB so far (goal {_GOAL_S:.0f} s)"
        )
    if options.out is not None:
        write(options.out, around, {name: vars(found) for name, found in results.items()})


if __name__ == "__main__":
    main()
