"""A real PostgreSQL is stopped and the worker killed meanwhile: no record is lost, none twice."""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import anyio
import pytest

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.cluster import Machine, Node
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.telemetry.history import GpuWindow
from gpu_core.testing.builders.attempts import NOON
from gpu_core.testing.builders.workloads import make_node, make_policy
from gpu_core.worker.watch.capacity import CapacityWatch
from gpu_core.worker.watch.decision_log import DecisionLog
from gpu_core.worker.watch.gpu_history import GpuHistory
from gpu_core.worker.watch.prices import Prices
from gpu_core.worker.watch.spooled_writes import SpooledWrites
from tests.support.postgresql import PostgresqlServer, new_database, stoppable_postgresql

POLICY = make_policy()


@pytest.fixture
def server() -> Iterator[PostgresqlServer]:
    """A server that the test stops."""
    with stoppable_postgresql() as running:
        yield running


class Worker:
    """What a worker writes that decides nothing. Another one with its file goes on after a kill."""

    def __init__(self, ledger: Ledger, folder: Path) -> None:
        self.writes = SpooledWrites(ledger, folder / "gpus.ledger.spool")
        self.capacity = CapacityWatch(ledger, "host-1", "gpus", Prices(ledger), self.writes)
        self.decisions = DecisionLog(ledger, "gpus", "host-1", self.writes)
        self.ended: list[GpuWindow] = []
        self.history = GpuHistory(self.writes, lambda: tuple(self.ended))

    def look(self, minute: float, *nodes: str) -> None:
        """See these machines and a GPU's minute, refuse a run, and write it down."""
        anyio.run(self._look, minute, nodes)

    async def _look(self, minute: float, nodes: tuple[str, ...]) -> None:
        await self.capacity.observe([_node(name) for name in nodes], POLICY, at(minute))
        self.decisions.refused(f"run-{minute:g}", "It fits nowhere.", at(minute))
        await self.decisions.flush()
        self.ended = [GpuWindow(minute=at(minute), summary=GpuSummary(gpu_id="GPU-0", samples=60))]
        await self.history.write(30, at(minute), 60 * minute)

    def replay(self) -> None:
        """Begin a cycle."""
        anyio.run(self.writes.replay)


def at(minute: float) -> datetime:
    return NOON + timedelta(minutes=minute)


def _node(name: str) -> Node:
    return make_node(name, machine=Machine(gpus=8, incarnation=f"uid-{name}"))


def written(ledger: Ledger) -> list[tuple[str, datetime, datetime | None]]:
    """Which machines were there from when to when."""
    found = ledger.capacity(at(-60), at(600))
    return sorted((i.node, i.since, i.until) for i in found)


@pytest.mark.postgresql
def test_no_record_is_lost_and_none_is_twice(
    server: PostgresqlServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    with Ledger.open(new_database(server.address)) as ledger:
        first = Worker(ledger, tmp_path)
        first.look(0, "n1", "n2")
        server.stop()
        first.look(1, "n1", "n2", "n3")
        first.look(2, "n1", "n3")
        with pytest.raises(Exception, match="connection"):
            first.replay()  # a cycle ends here: nothing is admitted
        second = Worker(ledger, tmp_path)  # the first one was killed
        with pytest.raises(Exception, match="connection"):
            second.replay()
        server.start()
        spool = (tmp_path / "gpus.ledger.spool").read_bytes()
        second.replay()
        (tmp_path / "gpus.ledger.spool").write_bytes(spool)  # killed before it was emptied
        third = Worker(ledger, tmp_path)
        third.replay()
        assert not third.writes.is_behind
        third.look(3, "n1", "n4")
        assert written(ledger) == [
            ("n1", at(0), None),
            ("n2", at(0), at(2)),
            ("n3", at(1), at(3)),
            ("n4", at(3), None),
        ]
        refused = ledger.decisions()
        assert [d.flow_run_id for d in refused] == ["run-0", "run-1", "run-2", "run-3"]
        assert [check.problem for check in ledger.check_decisions()] == [None]
        windows = ledger.gpu_windows(at(-60), at(600))
        assert [window.minute for window in windows] == [at(0), at(1), at(2), at(3)]


def test_lines_that_are_no_records_are_kept_for_a_person(tmp_path: Path) -> None:
    path = tmp_path / "gpus.ledger.spool"
    path.write_text("no record\n")
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        worker = Worker(ledger, tmp_path)
        worker.replay()
        assert not worker.writes.is_behind
    (kept,) = tmp_path.glob("*.unreadable")
    assert kept.read_text() == "no record\n"


def test_a_record_that_the_ledger_refuses_stops_nothing_and_is_kept(tmp_path: Path) -> None:
    """No database has room for so many GPUs; the records after it are written."""
    node = make_node("odd", machine=Machine(gpus=2**70, incarnation="uid-odd"))
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        worker = Worker(ledger, tmp_path)
        anyio.run(worker.capacity.observe, [node], POLICY, at(0))
        worker.look(1, "n1")
        assert written(ledger) == [("n1", at(1), None)]
        assert [d.flow_run_id for d in ledger.decisions()] == ["run-1"]
        assert not worker.writes.is_behind
    assert "uid-odd" in (tmp_path / "gpus.ledger.refused").read_text()


def test_a_damaged_record_of_a_machine_or_a_policy_stops_no_cycle(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(f"sqlite:///{path}") as ledger:
        worker = Worker(ledger, tmp_path)
        worker.look(0, "n1")
        anyio.run(worker.decisions.policy, POLICY, None, at(0))
        anyio.run(worker.decisions.flush)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE capacity_intervals SET since = 'yesterday'")
        connection.execute("UPDATE decisions SET numbers = '[' WHERE kind = 'PolicyChanged'")
    with Ledger.open(f"sqlite:///{path}") as ledger:
        worker = Worker(ledger, tmp_path)
        worker.look(1, "n1")
        anyio.run(worker.decisions.policy, POLICY, None, at(1))
        anyio.run(worker.decisions.flush)
        assert [d.kind for d in ledger.decisions()][-2:] == ["Refused", "PolicyChanged"]
