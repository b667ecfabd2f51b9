"""Minutes of GPUs reach the ledger once a minute; a ledger that is down loses none of a day."""

import logging
from datetime import UTC, datetime, timedelta

import anyio
import pytest

from gpu_core.adapters.ledger import Ledger, LedgerError
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.telemetry.history import GpuWindow
from gpu_core.worker.watch.gpu_history import GpuHistory

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)


def window(minute):
    return GpuWindow(
        minute=NOON + timedelta(minutes=minute), summary=GpuSummary(gpu_id="GPU-a", samples=60)
    )


class Source:
    """Minutes that have ended."""

    def __init__(self):
        self.ended = []

    def take(self):
        taken, self.ended = tuple(self.ended), []
        return taken


class Down:
    """A ledger that is down until it is it is changed."""

    def __init__(self, ledger):
        self.ledger, self.is_down, self.asked = ledger, True, 0

    def add_gpu_windows(self, windows, forget_before):
        self.asked += 1
        if self.is_down:
            raise LedgerError("the ledger is down")
        self.ledger.add_gpu_windows(windows, forget_before)


@pytest.fixture
def ledger(tmp_path):
    with Ledger.open(f"sqlite:///{tmp_path}/ledger.db") as opened:
        yield opened


def read(ledger):
    return ledger.gpu_windows(NOON, NOON + timedelta(hours=1))


def write(history, *moments_s, days=30):
    async def writes():
        for now_s in moments_s:
            await history.write(days, NOON + timedelta(hours=1), now_s)

    anyio.run(writes)


def test_minutes_are_written_once_a_minute(ledger):
    source = Source()
    history = GpuHistory(ledger, source.take)
    source.ended = [window(0)]
    write(history, 100.0)
    source.ended = [window(1)]
    write(history, 159.0)
    assert read(ledger) == (window(0),)
    write(history, 160.0)
    assert read(ledger) == (window(0), window(1))


def test_a_ledger_that_is_down_is_said_once_and_gets_all_of_them_later(ledger, caplog):
    source, down = Source(), Down(ledger)
    history = GpuHistory(down, source.take)
    with caplog.at_level(logging.WARNING, "prefect.gpu.history"):
        for minute in range(3):
            source.ended = [window(minute)]
            write(history, 60.0 * minute)
    assert (down.asked, len(caplog.records)) == (3, 1)
    down.is_down = False
    write(history, 180.0)
    assert read(ledger) == (window(0), window(1), window(2))


def test_a_policy_of_no_days_keeps_nothing(ledger):
    source = Source()
    history = GpuHistory(ledger, source.take)
    source.ended = [window(0)]
    write(history, 0.0, days=0)
    write(history, 60.0)
    assert read(ledger) == ()
