"""Minutes of GPUs reach the ledger once a minute; a ledger that is down loses none of a day."""

import logging
from datetime import UTC, datetime, timedelta

import anyio
import pytest

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.spool import SpoolFull
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.telemetry.history import GpuWindow
from gpu_core.worker.watch.gpu_history import GpuHistory
from gpu_core.worker.watch.spooled_writes import SpooledWrites

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


class Full(SpooledWrites):
    """The ledger is down, and no record can wait, until `is_down` is changed."""

    is_down, asked = True, 0

    async def write(self, record):
        self.asked += 1
        if self.is_down:
            raise SpoolFull("the disk is full")
        await super().write(record)


@pytest.fixture
def ledger(tmp_path):
    with Ledger.open(f"sqlite:///{tmp_path}/ledger.db") as opened:
        yield opened


@pytest.fixture
def writes(ledger, tmp_path):
    return SpooledWrites(ledger, tmp_path / "gpus.ledger.spool")


def read(ledger):
    return ledger.gpu_windows(NOON, NOON + timedelta(hours=1))


def write(history, *moments_s, days=30):
    async def writes():
        for now_s in moments_s:
            await history.write(days, NOON + timedelta(hours=1), now_s)

    anyio.run(writes)


def test_minutes_are_written_once_a_minute(ledger, writes):
    source = Source()
    history = GpuHistory(writes, source.take)
    source.ended = [window(0)]
    write(history, 100.0)
    source.ended = [window(1)]
    write(history, 159.0)
    assert read(ledger) == (window(0),)
    write(history, 160.0)
    assert read(ledger) == (window(0), window(1))


def test_a_full_spool_is_said_once_and_nothing_is_lost(ledger, tmp_path, caplog):
    source, down = Source(), Full(ledger, tmp_path / "gpus.ledger.spool")
    history = GpuHistory(down, source.take)
    with caplog.at_level(logging.WARNING, "prefect.gpu.history"):
        for minute in range(3):
            source.ended = [window(minute)]
            write(history, 60.0 * minute)
    assert (down.asked, len(caplog.records)) == (3, 1)
    down.is_down = False
    write(history, 180.0)
    assert read(ledger) == (window(0), window(1), window(2))


def test_a_policy_of_no_days_keeps_nothing(ledger, writes):
    source = Source()
    history = GpuHistory(writes, source.take)
    source.ended = [window(0)]
    write(history, 0.0, days=0)
    write(history, 60.0)
    assert read(ledger) == ()
