"""How much longer does a worker's cycle take because machines and decisions are written down?

    python -m benchmarks.cycle_records [--out results.json]
    python -m benchmarks.cycle_records --ledgers postgresql+psycopg://… postgresql+psycopg://…

A pool of 100 nodes with 8 GPUs and about 1,000 runs that wait. Between two cycles 20 runs end and
20 come; every tenth time a node goes and another one comes. Two whole workers do the same cycles in
turns, on new ledgers: one writes these records, the other one does not. A cycle is all that a
worker does from the reading of its queue until its reasons are published and the ends before it are
written down: the other worker rests meanwhile, so that no time of one counts for the other.
Prefect is a value in memory, and nothing is logged: what a client, a server and a log take, in
which a real cycle waits most of its time, is left out, so that the part of the records is larger
here than in a real one.
"""

import argparse
import logging
import random
import statistics
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import anyio
from prefect.settings import PREFECT_LOGGING_TO_API_ENABLED, temporary_settings
from prefect.states import Completed

from benchmarks.report import circumstances, write
from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.database import Logged
from gpu_core.decisions.model.cluster import Machine, Node
from gpu_core.decisions.policy.policy import parse_policy
from tests.support.pool import POOL, QUEUE, FakePrefect, OnePool

GOAL_PERCENT = 5.0
_POLICY = parse_policy({"version": 1, "prices": {"a100-80gb": {"on-demand": 3.43}}})
_NODES, _WAITING, _TURNOVER = 100, 1000, 20
_STARTED_AT_FIRST = 400
_SEEN_EVERY_CYCLES = 6
"""Machines are noted as seen once a minute, and cycles are ten seconds apart."""
_POLL_S, _LONGEST_SETTLING_S = 0.01, 120.0


@dataclass(slots=True)
class Took:
    """What the cycles took, each."""

    cpu_s: list[float] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)
    started: list[int] = field(default_factory=list)
    """Runs that got their GPUs."""


class QuietPrefect(FakePrefect):
    """Prefect that writes out each waiting run once, as a server's client has it for nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[int, dict[str, Any]] = {}

    async def request(self, method: str, path: str, **options: Any) -> Any:
        if not path.endswith("get_scheduled_flow_runs"):
            return await super().request(method, path, **options)
        waiting = [run for run in self.runs.values() if run.state and run.state.is_scheduled()]
        known, self._rows = self._rows, {}
        for run in waiting:
            self._rows[id(run)] = known.get(id(run)) or {
                "work_pool_id": str(POOL),
                "work_queue_id": str(QUEUE),
                "flow_run": run.model_dump(mode="python"),
            }
        rows = list(self._rows.values())
        return SimpleNamespace(json=lambda: rows)


class Cycles:
    """The cycles of one worker. Equal seeds make equal pools.

    Args:
        ledger: A new one.
        folder: Where the worker keeps its files.
        writes_records: Whether machines and decisions are written down.
    """

    def __init__(self, ledger: Ledger, folder: Path, *, writes_records: bool) -> None:
        self._writes_records = writes_records
        nodes = [_node(number) for number in range(_NODES)]
        self.pool = OnePool(folder, ledger, QuietPrefect(), nodes, _POLICY, name="bench")
        self._chance, self._runs, self._number = random.Random(1), 0, 0
        self._submit(_WAITING + _STARTED_AT_FIRST)
        self.took = Took()

    def begin(self) -> None:
        """Its worker has started."""
        if not self._writes_records:
            _without_records(self.pool.scheduler)

    async def cycle(self) -> None:
        """One cycle, timed."""
        self._change()
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        started = await self.pool.cycle()
        await self._settled()
        self.took.cpu_s.append(time.process_time() - cpu_s)
        self.took.wall_s.append(time.perf_counter() - wall_s)
        self.took.started.append(len(started))
        self._number += 1

    async def _settled(self) -> None:
        """The ends that this cycle has seen are written down, by tasks of their own."""
        ended, attempts = self.pool.infrastructure.ended, self.pool.scheduler._attempts
        with anyio.fail_after(_LONGEST_SETTLING_S):
            while any(a.attempt.attempt_id in ended for a in attempts):  # noqa: ASYNC110 - no event says it
                await anyio.sleep(_POLL_S)

    def _change(self) -> None:
        """What happens between two cycles."""
        if not self._number:
            return
        held = sorted(self.pool.scheduler._attempts.holding(), key=lambda each: each.flow_run_id)
        for running in self._chance.sample(held, min(_TURNOVER, len(held))):
            self._end(running)
        self._submit(_TURNOVER)
        if self._number % 10 == 9:
            self._replace_node(held)
        if self._number % _SEEN_EVERY_CYCLES == 0:
            self.pool.scheduler._capacity._noted_at = None

    def _replace_node(self, held: Sequence[Any]) -> None:
        gone, *others = self.pool.infrastructure._nodes
        for running in held:
            if running.attempt.node == gone.name:
                self._end(running)
        new = _node(_NODES + self._number)
        self.pool.infrastructure._nodes = (*others, new)

    def _end(self, running: Any) -> None:
        runs, key, done = self.pool.prefect.runs, UUID(running.flow_run_id), Completed()
        runs[key] = runs[key].model_copy(update={"state": done, "state_type": done.type})
        self.pool.infrastructure.ended.add(running.attempt.attempt_id)

    def _submit(self, count: int) -> None:
        for _ in range(count):
            self._runs += 1
            self.pool.prefect.submit(self._runs, {"gpu_count": self._chance.choice([1, 1, 2, 4])})


def _without_records(scheduler: Any) -> None:
    """Let this worker decide and act as before, and write down neither machines nor decisions."""
    log, nothing = scheduler._decisions, Logged("", ())

    async def no_record(*_of: object) -> None:
        """Nothing is written."""

    log.admissions = log.stop = lambda *_of: nothing
    log.refused = log.waiting = lambda *_of: None
    log.moved_up = log.policy = log.flush = no_record
    scheduler._capacity.observe = no_record


def _node(number: int) -> Node:
    return Node(
        name=f"n{number:03}",
        gpu_type="a100-80gb",
        gpu_ids=tuple(f"virtual-{number}-{gpu}" for gpu in range(8)),
        gpu_memory_gib=80,
        machine=Machine(gpus=8, incarnation=f"machine-{number}"),
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
            async with AsyncExitStack() as workers:
                for each in (without, with_):
                    await workers.enter_async_context(each.pool.scheduling())
                    each.begin()
                for number in range(cycles):
                    for each in (without, with_) if number % 2 else (with_, without):
                        await each.cycle()

        anyio.run(alternate)
    return without.took, with_.took


def percent_more(without: Sequence[float], with_: Sequence[float]) -> tuple[float, ...]:
    """How much more do the same cycles take? Quartiles, in percent of the middle one without."""
    more = [after - before for before, after in zip(without, with_, strict=True)]
    middle = statistics.median(without)
    return tuple(100 * each / middle for each in statistics.quantiles(more))


def main() -> None:
    """Measure, print, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--ledgers", nargs=2, default=None, help="Two empty databases")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    if options.cycles < 3:
        parser.error("--cycles: 3 or more, as the first one does not count")
    around = circumstances()
    logging.disable(logging.INFO)
    with (
        TemporaryDirectory() as folder,
        temporary_settings({PREFECT_LOGGING_TO_API_ENABLED: False}),
    ):
        files = [f"sqlite:///{folder}/{name}.db" for name in ("without", "with")]
        without, with_ = measure(options.ledgers or files, options.cycles)
    # The first cycle fills an empty pool, and writes the reason of each run that waits.
    results: dict[str, object] = {"started": with_.started[1:]}
    for name in ("cpu_s", "wall_s"):
        before, after = getattr(without, name)[1:], getattr(with_, name)[1:]
        percent = percent_more(before, after)
        numbers = results[name] = {
            "without_ms": 1000 * statistics.median(before),
            "with_ms": 1000 * statistics.median(after),
            "more_percent": percent[1],
            "more_percent_of_sum": 100 * (sum(after) / sum(before) - 1),
            "more_percent_first_quartile": percent[0],
            "more_percent_third_quartile": percent[2],
        }
        print(name, {key: round(value, 1) for key, value in numbers.items()})
    print(f"runs that start in a cycle: {statistics.mean(with_.started[1:]):.1f}")
    print(f"goal: {GOAL_PERCENT:.0f}% more")
    if options.out is not None:
        write(options.out, around, results)


if __name__ == "__main__":
    main()
