"""How much longer does a cycle take because machines and decisions are written down?

    python -m benchmarks.cycle_records [--out results.json]
    python -m benchmarks.cycle_records --ledgers postgresql+psycopg://… postgresql+psycopg://…

A pool of 100 nodes with 8 GPUs and 1,000 runs that wait. In each of 60 cycles, ten seconds apart,
20 runs end, others start on their GPUs, and 20 come; every tenth cycle a node goes and another one
comes. Each cycle is done with and without these records, on two new ledgers, one after the other. A
cycle is its plan with all explanations and its admissions: Prefect's API, which takes most of a
real one, is left out, so that the part of the records is the largest that it can be.
"""

import argparse
import random
import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from benchmarks.report import circumstances, write
from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.attempts import Attempt, RunRecord
from gpu_core.decisions.model.cluster import Allocation, Machine, Node, Snapshot
from gpu_core.decisions.model.workload import Shape, Workload
from gpu_core.decisions.policy.policy import parse_policy
from gpu_core.decisions.scheduling.cycle.isolation import plan_apart
from gpu_core.decisions.scheduling.plan.plan import Admit, Plan
from gpu_core.worker.watch.capacity import CapacityWatch
from gpu_core.worker.watch.decision_log import DecisionLog
from gpu_core.worker.watch.prices import Prices
from gpu_core.worker.watch.spooled_writes import SpooledWrites

GOAL_PERCENT = 5.0
_START = datetime(2026, 9, 1, tzinfo=UTC)
_EVERY = timedelta(seconds=10)
_POLICY = parse_policy({"version": 1, "prices": {"a100-80gb": {"on-demand": 3.43}}})
_GPUS = tuple("01234567")


@dataclass(slots=True)
class Took:
    """What the cycles took, each."""

    cpu_s: list[float] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)


class Cycles:
    """The cycles of one worker. Equal seeds make equal pools.

    Args:
        ledger: A new one.
        folder: Where its records wait while the ledger is unavailable.
        writes_records: Whether machines and decisions are written down.
    """

    def __init__(self, ledger: Ledger, folder: Path, *, writes_records: bool) -> None:
        self._ledger, self._writes_records = ledger, writes_records
        writes = SpooledWrites(ledger, folder / "bench.ledger.spool")
        self._capacity = CapacityWatch(ledger, "host-1", "bench", Prices(ledger), writes)
        self._decisions = DecisionLog(ledger, "bench", "host-1", writes)
        self._chance, self._runs, self._number = random.Random(1), 0, 0
        self._nodes = [_node(number) for number in range(100)]
        self._pending = [self._new_run(_START) for _ in range(1000)]
        self._held: list[Allocation] = []
        self.took = Took()

    async def cycle(self) -> None:
        """One cycle, timed."""
        now = _START + self._number * _EVERY
        self._change(now)
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        admitted = await self._timed(now)
        self.took.cpu_s.append(time.process_time() - cpu_s)
        self.took.wall_s.append(time.perf_counter() - wall_s)
        self._held += admitted
        begun = {allocation.workload.workload_id for allocation in admitted}
        self._pending = [w for w in self._pending if w.workload_id not in begun]
        self._number += 1

    def _change(self, now: datetime) -> None:
        """What happens between two cycles."""
        self._chance.shuffle(self._held)
        del self._held[:20]
        self._pending += [self._new_run(now) for _ in range(20)]
        if self._number % 10 == 9:
            gone = self._nodes.pop(0).name
            self._held = [a for a in self._held if a.placement.shares[0].node != gone]
            self._nodes.append(_node(100 + self._number))

    async def _timed(self, now: datetime) -> list[Allocation]:
        if self._writes_records:
            await self._decisions.policy(_POLICY, now)
            await self._capacity.observe(self._nodes, _POLICY, now)
            await self._decisions.moved_up(self._pending, now)
        plan = plan_apart(self._snapshot(), _POLICY, now)
        explanations = list(plan.plan.explanations)
        admitted = self._admitted(plan.plan, now)
        records = [(_record(a.workload), _attempt(a)) for a in admitted]
        decided = self._decisions.admissions(
            [(attempt, a.workload) for a, (_, attempt) in zip(admitted, records, strict=True)]
        )
        self._ledger.admit(records, decided if self._writes_records else None)
        if self._writes_records:
            self._decisions.waiting(explanations, now)
            await self._decisions.flush()
        return admitted

    def _snapshot(self) -> Snapshot:
        return Snapshot(
            nodes=tuple(self._nodes),
            allocations=tuple(self._held),
            pending=tuple(self._pending),
        )

    def _admitted(self, plan: Plan, now: datetime) -> list[Allocation]:
        by_id = {workload.workload_id: workload for workload in self._pending}
        return [
            Allocation(
                workload=by_id[command.workload_id],
                attempt=1,
                placement=command.placement,
                admitted_at=now,
            )
            for command in plan.commands
            if isinstance(command, Admit)
        ]

    def _new_run(self, now: datetime) -> Workload:
        self._runs += 1
        return Workload(
            workload_id=f"run-{self._runs}",
            name=f"run-{self._runs}",
            priority=self._chance.choice([100, 1_000, 10_000]),
            submitted_at=now,
            shape=Shape(gpu_count=self._chance.choice([1, 1, 2, 4])),
            team=f"team-{self._chance.randrange(8)}",
        )


def _node(number: int) -> Node:
    machine = Machine(gpus=8, incarnation=f"machine-{number}")
    return Node(name=f"n{number:03}", gpu_type="a100-80gb", gpu_ids=_GPUS, machine=machine)


def _record(workload: Workload) -> RunRecord:
    return RunRecord(
        flow_run_id=workload.workload_id,
        name=workload.name,
        flow_name="train",
        deployment="train/gpu",
        pool="bench",
        queue="medium",
        team=workload.team,
        user=None,
        project=None,
        experiment=None,
        model=None,
        workload_type="training",
        priority=workload.priority,
        submitted_at=workload.submitted_at,
    )


def _attempt(allocation: Allocation) -> Attempt:
    run_id, share = allocation.workload.workload_id, allocation.placement.shares[0]
    return Attempt(
        attempt_id=f"{run_id}/1",
        flow_run_id=run_id,
        number=1,
        pool="bench",
        host="host-1",
        node=share.node,
        gpu_type=allocation.placement.gpu_type,
        gpu_ids=share.gpu_ids,
        capacity_type=allocation.placement.capacity_type,
        price_micro_usd_per_gpu_hour=3_430_000,
        shares=allocation.placement.shares,
        admitted_at=allocation.admitted_at,
        bound_at=allocation.admitted_at,
    )


def measure(ledgers: Sequence[str], cycles: int) -> tuple[Took, Took]:
    """What cycles take without these records, and with them."""
    with ExitStack() as stack, TemporaryDirectory() as folder:
        without, with_ = (
            Cycles(
                stack.enter_context(Ledger.open(url)),
                Path(folder) / str(number),
                writes_records=bool(number),
            )
            for number, url in enumerate(ledgers)
        )

        async def alternate() -> None:
            for number in range(cycles):
                for each in (without, with_) if number % 2 else (with_, without):
                    await each.cycle()

        anyio.run(alternate)
    return without.took, with_.took


def percent_more(without: Sequence[float], with_: Sequence[float]) -> float:
    """How much more is the middle one, in percent?"""
    before = statistics.median(without)
    return 100 * (statistics.median(with_) - before) / before


def main() -> None:
    """Measure, print, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=60)
    parser.add_argument("--ledgers", nargs=2, default=None, help="Two empty databases")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    around = circumstances()
    with TemporaryDirectory() as folder:
        files = [f"sqlite:///{folder}/{name}.db" for name in ("without", "with")]
        without, with_ = measure(options.ledgers or files, options.cycles)
    # The first cycle fills an empty pool, and writes the reason of each run that waits.
    results = {}
    for name in ("cpu_s", "wall_s"):
        before, after = getattr(without, name)[1:], getattr(with_, name)[1:]
        results[name] = {
            "without_ms": 1000 * statistics.median(before),
            "with_ms": 1000 * statistics.median(after),
            "more_percent": percent_more(before, after),
            "more_percent_of_sum": 100 * (sum(after) - sum(before)) / sum(before),
        }
        print(name, {key: round(value, 1) for key, value in results[name].items()})
    print(f"goal: {GOAL_PERCENT:.0f} % more")
    if options.out is not None:
        write(options.out, around, results)


if __name__ == "__main__":
    main()
