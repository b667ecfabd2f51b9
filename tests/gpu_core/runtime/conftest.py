"""A process that looks as if a GPU worker had started it, in a folder of its own."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpu_core.decisions.checkpoints.interruption_hazard import CapacityLife
from gpu_core.decisions.requests.run_context import RunContext

StartAttempt = Callable[..., RunContext]


@pytest.fixture(autouse=True)
def _outside_any_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees a run that this test process itself may be part of."""
    context = RunContext(
        flow_run_id="x",
        attempt=1,
        attempt_id="x",
        devices=("0",),
        gpu_type="x",
        run_dir="x",
        checkpoint_uri="x",
        checkpoint_interval_adapts=True,
        capacity_life=CapacityLife.constant(1),
        capacity_since=datetime(2026, 3, 1, tzinfo=UTC),
        notice_file="x",
        instance_metadata_url="x",
        team="x",
        project="x",
        deployment="x",
    )
    for name in context.to_environment():
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def start_attempt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> StartAttempt:
    """Become this attempt of the run, as the worker would start it."""

    def become(attempt: int, **changes: object) -> RunContext:
        run_dir = tmp_path / "runs" / str(attempt)
        run_dir.mkdir(parents=True, exist_ok=True)
        values = {
            "flow_run_id": "3f0c",
            "attempt": attempt,
            "attempt_id": f"3f0c-{attempt}",
            "run_dir": str(run_dir),
            "checkpoint_uri": str(tmp_path / "store"),
        }
        context = RunContext(**values | changes)
        for name, value in context.to_environment().items():
            monkeypatch.setenv(name, value)
        return context

    return become
