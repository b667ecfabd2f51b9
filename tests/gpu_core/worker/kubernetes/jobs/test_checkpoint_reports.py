"""How often the labels of running flow runs are read."""

from dataclasses import asdict
from datetime import timedelta
from types import SimpleNamespace
from uuid import uuid4

import anyio
import pytest

from gpu_core.adapters.files.progress_report import ProgressReport
from gpu_core.decisions.checkpoints.progress_labels import progress_labels
from gpu_core.decisions.telemetry.hung_training import (
    HangKind,
    Load,
    RankState,
    WorkLevel,
    find_hang,
)
from gpu_core.testing.builders.workloads import NOW, ago
from gpu_core.worker.kubernetes.jobs import checkpoint_reports
from gpu_core.worker.kubernetes.jobs.checkpoint_reports import CheckpointReports, reported_progress


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


def test_a_run_in_a_pod_that_spins_hangs_by_what_its_first_rank_reports():
    """It says that it is there, and makes no steps: a report that stays away is no hang."""
    report = ProgressReport(
        attempt_id="a", ranks=8, pid=7, steps=9, progressed_at=ago(400), median_step_s=2.0
    )
    of_run = SimpleNamespace(
        attempt=SimpleNamespace(attempt_id="a"), labels=progress_labels(asdict(report), ago(20))
    )
    (found,) = reported_progress(of_run, NOW)
    assert (found.steps, found.ranks, found.progressed_at) == (9, 8, ago(380))
    spins = Load(utilization_ratio=1.0, sm_active_ratio=0.05, cores=1.0)
    level = WorkLevel(observations=9, sm_active_ratio=0.6)
    rank = RankState(
        rank=found.rank,
        node="n1",
        gpu_id="GPU-a",
        steps=found.steps,
        progressed_at=found.progressed_at,
        median_step_s=found.median_step_s,
        longest_step_s=found.longest_step_s,
        load=spins,
        level=level,
    )
    assert find_hang([rank], None, NOW).kind is HangKind.SPINNING
    assert reported_progress(of_run, NOW + timedelta(seconds=200)) == ()
