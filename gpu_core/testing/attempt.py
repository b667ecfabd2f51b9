"""An attempt of a run, as the worker starts it: what `checkpointing()` finds in its environment."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gpu_core.adapters.files.run_files import (
    CheckpointReport,
    Notice,
    read_checkpoint_report,
    write_notice,
)
from gpu_core.decisions.requests.runs.run_context import RunContext


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptInTest:
    """An attempt that this process is part of."""

    context: RunContext
    run_dir: Path

    @property
    def report(self) -> CheckpointReport | None:
        """The checkpoints that the run has reported; None: none yet."""
        return read_checkpoint_report(str(self.run_dir))

    def give_notice(
        self, left_s: float = 30, *, reason: str = "Preempted", message: str = "a test"
    ) -> Notice:
        """Give the run notice of its end: `due()` is true until it has saved.

        Args:
            left_s: Seconds from now to the deadline.
            reason: `Preempted`, or another word of the worker.
            message: The same for people.
        """
        # The runtime compares the deadline with the clock of the machine.
        now = datetime.now(UTC)
        notice = Notice(
            reason=reason,
            message=message,
            requested_at=now,
            deadline_at=now + timedelta(seconds=left_s),
        )
        write_notice(self.run_dir, notice)
        return notice


@contextmanager
def attempt_of_a_run(
    folder: Path, attempt: int = 1, *, flow_run_id: str = "run-1", **context: Any
) -> Iterator[AttemptInTest]:
    """Make this process an attempt of a run, until the end of the block.

    Its checkpoints lie in the folder, too, so that the next attempt finds them, unless the test
    gives `checkpointing` a store.

    Args:
        folder: Of the test, such as pytest's `tmp_path`.
        attempt: 1 for the first one. Each must be over 0 and over those that have saved.
        flow_run_id: Which run; attempts of the same one share their checkpoints.
        context: Other fields of `RunContext`, such as `grace_s` and `gpu_type`.
    """
    run_dir = folder / "runs" / flow_run_id / str(attempt)
    run_dir.mkdir(parents=True, exist_ok=True)
    values: dict[str, Any] = {
        "flow_run_id": flow_run_id,
        "attempt": attempt,
        "attempt_id": f"{flow_run_id}-{attempt}",
        "run_dir": str(run_dir),
        "checkpoint_uri": str(folder / "checkpoints"),
    }
    run = RunContext(**(values | context))
    before = dict(os.environ)
    os.environ.update(run.to_environment())
    try:
        yield AttemptInTest(context=run, run_dir=run_dir)
    finally:
        os.environ.clear()
        os.environ.update(before)
