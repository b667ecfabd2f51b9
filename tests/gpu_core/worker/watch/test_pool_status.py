"""The watch over a pool: it reports what has changed, once, and forgets whom Prefect hands out."""

import logging
from datetime import UTC, datetime
from types import SimpleNamespace
from uuid import uuid4

import anyio
import pytest

from gpu_core.decisions.checks.prefect.pool_status import PoolStatus, QueueStatus, SeenWorker
from gpu_core.worker.watch import pool_status as pool_watch
from gpu_core.worker.watch.pool_status import PoolWatch

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STATUS = PoolStatus(
    name="gpu",
    worker_type="gpu-process",
    queues=(QueueStatus(name="low"),),
    workers=(SeenWorker(name="w", worker_type="gpu-process"),),
)
PAUSED = PoolStatus(name="gpu", worker_type="gpu-process", is_paused=True, queues=STATUS.queues)
FULL = PoolStatus(
    name="gpu",
    worker_type="gpu-process",
    queues=(QueueStatus(name="low", concurrency_limit=1, active=1),),
)


class Prefect:
    """What the API shows at a look."""

    def __init__(self) -> None:
        self.status = STATUS
        self.runs = (SimpleNamespace(id=uuid4(), work_queue_name="low"),)

    async def read_pool_status(self, _client, _pool):
        return self.status

    async def read_waiting(self, _client, _pool, _before):
        return self.runs, len(self.runs)


@pytest.fixture
def prefect(monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="prefect.gpu.pool")
    found = Prefect()
    monkeypatch.setattr(pool_watch, "read_pool_status", found.read_pool_status)
    monkeypatch.setattr(pool_watch, "read_waiting", found.read_waiting)
    monkeypatch.setattr(pool_watch, "_POLL_S", 0.0)
    return found


def look(watch, times=1):
    async def looking():
        for _ in range(times):
            await watch.refresh(NOW)

    anyio.run(looking)


def test_a_pause_is_said_once_and_so_is_its_end(prefect, caplog):
    watch = PoolWatch(None, "gpu", (), lambda: None)
    prefect.status = PAUSED
    look(watch, 3)
    prefect.status = STATUS
    look(watch, 3)
    prefect.status = PAUSED
    look(watch)

    pause = (
        "Work pool 'gpu' is paused, so its runs will not start. "
        "To resume it, run: prefect work-pool resume gpu"
    )
    assert caplog.messages == [pause, "Work pool 'gpu' is resumed", pause]


def test_a_limit_that_is_reached_again_and_again_is_said_once(prefect, caplog):
    watch = PoolWatch(None, "gpu", (), lambda: None)
    for status in (FULL, STATUS, FULL):
        prefect.status = status
        look(watch)
    assert len(caplog.messages) == 1


def test_who_is_kept_back_wakes_the_cycle_and_is_forgotten_when_handed_out(prefect):
    woken = []
    watch = PoolWatch(None, "gpu", (), lambda: woken.append(1))
    look(watch)
    assert (watch.kept_back(()), woken) == ((), [])
    prefect.status = PAUSED
    look(watch, 2)

    (kept,) = watch.kept_back(())
    assert (kept.queue, str(kept.hold.reason), woken) == ("low", "PoolPaused", [1])
    assert watch.kept_back({str(kept.flow_run.id)}) == ()
    assert watch.kept_back(()) == ()


def test_a_worker_of_some_queues_reports_only_theirs(prefect):
    watch = PoolWatch(None, "gpu", ("high",), lambda: None)
    prefect.status = PAUSED
    look(watch)
    assert watch.kept_back(()) == ()
