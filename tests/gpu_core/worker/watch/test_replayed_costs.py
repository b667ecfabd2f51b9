"""Costs after outages: whatever was spooled, replayed or written twice counts once."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from shutil import copyfile
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy.exc import OperationalError

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.cost_slices import CostQuestion
from gpu_core.adapters.ledger.spool import SpooledRecord
from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityChanges, CapacityInterval
from gpu_core.decisions.costs.usage.usage import Usage
from gpu_core.decisions.costs.usage.usage_cost import Window, attempt_usage
from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.decision_chain import Decision, DecisionKind
from gpu_core.testing.builders.attempts import at, make_run
from gpu_core.worker.watch.spooled_writes import SpooledWrites
from tests.gpu_core.decisions.costs.capacity.test_idle import timelines
from tests.support.examples import examples

ALWAYS = Window(at(-99), at(99))
FINE, AWAY, CUT = "it answers", "it is away", "its answer is lost after it wrote"
answers = st.sampled_from([FINE, FINE, AWAY, CUT])


class UnreliableLedger:
    """A ledger that is away at times, or writes and is away before it has answered."""

    def __init__(self, ledger: Ledger, answers: Sequence[str]) -> None:
        self._ledger = ledger
        self._answers = iter(answers)

    def log(self, *args: Any) -> None:
        self._answer(self._ledger.log, *args)

    def write_capacity(self, *args: Any) -> None:
        self._answer(self._ledger.write_capacity, *args)

    def _answer(self, write: Any, *args: Any) -> None:
        answer = next(self._answers, FINE)
        if answer != AWAY:
            write(*args)
        if answer != FINE:
            raise OperationalError("write", {}, ConnectionError(answer))


def records_of(machines: Sequence[CapacityInterval]) -> Iterator[SpooledRecord]:
    """What a worker writes as this machine comes, changes its price and goes."""
    ended: tuple[CapacityInterval, ...] = ()
    for number, interval in enumerate(machines):
        begun = replace(interval, until=None, end_reason=None, seen_at=interval.since)
        yield _record(number, CapacityChanges(ended, (begun,)), interval)
        ended = (interval,)
    yield _record(len(machines), CapacityChanges(ended, ()), machines[-1])


def _record(number: int, changes: CapacityChanges, seen: CapacityInterval) -> SpooledRecord:
    decision = Decision(
        decision_id=f"decision-{number}",
        decided_at=seen.since,
        kind=DecisionKind.REFUSED,
        pool="gpus",
        flow_run_id=f"run-{number}",
    )
    return SpooledRecord(
        writer="gpus", decisions=(decision,), changes=changes,
        seen=(seen.interval_id,), seen_at=seen.since,
    )  # fmt: skip


@contextmanager
def outages(empty: Path, replies: Sequence[str]) -> Iterator[tuple[Ledger, SpooledWrites, Path]]:
    """A ledger, and what writes to it while it is away at times."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gpus.ledger.spool"
        copyfile(empty, f"{folder}/ledger.db")
        with Ledger.open(f"sqlite:///{folder}/ledger.db") as ledger:
            unreliable: Any = UnreliableLedger(ledger, replies)
            yield ledger, SpooledWrites(unreliable, path), path


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty ledger, to be copied: making its tables takes longer than the rest."""
    path = tmp_path_factory.mktemp("empty") / "ledger.db"
    Ledger.open(f"sqlite:///{path}").close()
    return path


@settings(deadline=None, max_examples=examples(20))
@given(
    timeline=timelines(),
    replies=st.lists(answers, max_size=12),
    kills=st.sets(st.integers(0, 5)),
    skew_us=st.integers(-(10**9), 10**9),
)
def test_replayed_records_cost_what_they_cost_without_an_outage(
    empty: Path,
    timeline: tuple[list[CapacityInterval], list[Attempt], Usage],
    replies: list[str],
    kills: set[int],
    skew_us: int,
) -> None:
    """With runs of another host's clock: attributed and idle make what the machines cost."""
    machines, attempts, _ = timeline
    skewed = [
        _skewed(attempt, timedelta(microseconds=skew_us * (n % 2)))
        for n, attempt in enumerate(attempts)
    ]
    with outages(empty, replies) as (ledger, writes, path):
        anyio.run(_write, writes, path, machines, kills)
        ledger.import_records([(make_run(a.flow_run_id), (a,)) for a in skewed])
        found = ledger.capacity_cost(CostQuestion(window=ALWAYS, keys=(), now=at(99)))
        written = [(i.interval_id, i.since, i.until) for i in ledger.capacity(at(-99), at(99))]
        checks = ledger.check_decisions()
    assert sorted(written) == sorted((i.interval_id, i.since, i.until) for i in machines)
    assert [(c.problem, c.records) for c in checks] == [(None, len(machines) + 1)]
    hour_us = 3_600_000_000
    want = sum(
        ((i.until or i.since) - i.since) // timedelta(microseconds=1) * (i.micro_usd_per_hour or 0)
        for i in machines
    )
    attributed, idle = found.attributed.exact_micro_usd, found.idle.exact_micro_usd
    assert (attributed + idle) * hour_us == want == found.capacity.exact_micro_usd * hour_us
    assert min(attributed, idle) >= 0
    paid = sum(attempt_usage(a, at(99)).exact_micro_usd for a in skewed if a.has_run)
    assert attributed <= paid


def _skewed(attempt: Attempt, skew: timedelta) -> Attempt:
    """The same by a clock that is before or after that of the machine's worker."""
    later = attempt.later_prices
    return replace(
        attempt,
        attempt_id=f"{attempt.attempt_id}/1",
        flow_run_id=f"run-{attempt.attempt_id}",
        admitted_at=attempt.admitted_at + skew,
        released_at=None if attempt.released_at is None else attempt.released_at + skew,
        later_prices=later and tuple(replace(p, since=p.since + skew) for p in later),
    )


def _killed(writes: SpooledWrites, path: Path) -> SpooledWrites:
    """The next worker, after a kill in the middle of a record."""
    if path.exists():
        with path.open("ab") as file:
            file.write(b'{"writer":"gp')
    return SpooledWrites(writes._ledger, path)


async def _write(
    writes: SpooledWrites, path: Path, machines: Sequence[CapacityInterval], kills: set[int]
) -> None:
    """Write down all of it, with a replay after each record, until nothing waits."""
    for number, record in enumerate(records_of(machines)):
        await writes.write(record)
        if number in kills:
            writes = _killed(writes, path)
        await _replay(writes)
    while writes.is_behind:
        await _replay(writes)


async def _replay(writes: SpooledWrites) -> None:
    try:
        await writes.replay()
    except OperationalError:
        return  # all of it waits further
