"""A process that looks as if a GPU worker had started it, in a folder of its own."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpu_core.decisions.model.capacity_life import CapacityLife
from gpu_core.decisions.requests.runs.run_context import RunContext
from gpu_core.testing.attempt import attempt_of_a_run

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
def start_attempt(tmp_path: Path) -> Iterator[StartAttempt]:
    """Become this attempt of the run, as the worker would start it."""
    with ExitStack() as attempts:

        def become(attempt: int, **changes: object) -> RunContext:
            values = {"flow_run_id": "3f0c", "checkpoint_uri": str(tmp_path / "store")}
            running = attempt_of_a_run(tmp_path, attempt, **values | changes)
            return attempts.enter_context(running).context

        yield become
