"""A record that is written while others are replayed is neither lost nor before them."""

import threading
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from gpu_core.adapters.ledger.database import Logged
from gpu_core.adapters.ledger.spool import SpooledRecord
from gpu_core.decisions.model.decision_chain import Decision, DecisionKind
from gpu_core.testing.builders.attempts import NOON
from gpu_core.worker.watch.spooled_writes import SpooledWrites

LONGEST_WAIT_S = 1.0
"""A write that need not wait for the replay ends long before; this one has to."""


def decision(name: str) -> Decision:
    return Decision(
        decision_id=name,
        decided_at=NOON,
        kind=DecisionKind.REFUSED,
        pool="gpus",
        flow_run_id=name,
        who="scheduler",
        reason=None,
        message="It fits nowhere.",
        numbers={},
    )


def record(name: str) -> SpooledRecord:
    return SpooledRecord(writer="gpus@host-1", decisions=(decision(name),))


class LedgerThatReplays:
    """While it takes the first record, another one is written."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.is_away = True
        self.writes: SpooledWrites
        self.beside: threading.Thread | None = None

    def log(self, logged: Logged) -> None:
        if self.is_away:
            raise ConnectionError("away")
        if self.beside is None:
            self.beside = threading.Thread(target=self._write_beside)
            self.beside.start()
            self.beside.join(LONGEST_WAIT_S)
        self.written += names(logged.decisions)

    def _write_beside(self) -> None:
        anyio.run(self.writes.write, record("second"))


def names(decisions: Sequence[Decision]) -> list[str]:
    return [each.decision_id for each in decisions]


def test_a_record_that_is_written_beside_a_replay_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_core.worker.watch.spooled_writes.is_ledger_outage", lambda error: True)
    ledger = LedgerThatReplays()
    ledger.writes = SpooledWrites(ledger, tmp_path / "spool")  # type: ignore[arg-type]  # a stub
    anyio.run(ledger.writes.write, record("first"))
    ledger.is_away = False
    anyio.run(ledger.writes.replay)
    assert ledger.beside is not None
    ledger.beside.join()
    anyio.run(ledger.writes.replay)
    assert ledger.written == ["first", "second"]
