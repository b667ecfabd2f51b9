"""How often the labels of running flow runs are read."""

from types import SimpleNamespace
from uuid import uuid4

import anyio
import pytest

from gpu_core.worker.kubernetes.jobs import checkpoint_reports
from gpu_core.worker.kubernetes.jobs.checkpoint_reports import CheckpointReports


class Client:
    """Counts what is read; no run has said anything."""

    def __init__(self) -> None:
        self.reads = 0

    async def read_flow_runs(self, **_: object) -> list[object]:
        self.reads += 1
        return []


def running(attempt_id: str) -> SimpleNamespace:
    attempt = SimpleNamespace(attempt_id=attempt_id, flow_run_id=str(uuid4()))
    return SimpleNamespace(attempt=attempt, report=None)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The time, which stands still until it is moved on."""
    moment = SimpleNamespace(now_s=1000.0)
    monkeypatch.setattr(
        checkpoint_reports, "anyio", SimpleNamespace(current_time=lambda: moment.now_s)
    )
    return moment


@pytest.mark.parametrize(
    ("pause_s", "want"),
    [pytest.param(0.5, 1, id="soon again"), pytest.param(1.5, 2, id="a second later")],
)
def test_one_run_is_read_once_a_second_at_most(clock, pause_s, want):
    client = Client()
    found = CheckpointReports(client)
    anyio.run(found.refresh, [running("a")])
    clock.now_s += pause_s
    anyio.run(found.refresh, [running("a")])
    assert client.reads == want


def test_nothing_is_remembered_of_runs_that_were_read_long_ago(clock):
    """A pool may run one at a time, for months."""
    found = CheckpointReports(Client())
    for number in range(50):
        anyio.run(found.refresh, [running(f"attempt-{number}")])
        clock.now_s += 60
    assert len(found._polled_one_at_s) == 1
