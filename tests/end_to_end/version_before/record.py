"""Record what this version leaves behind, for the tests of the next one.

    python -m tests.end_to_end.version_before.record FOLDER

A release runs it once; its files replace those in this folder.
"""

import base64
import json
import os
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.attempts import Attempt, RunRecord
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.requests.runs.run_context import RunContext
from gpu_core.runtime import checkpointing
from gpu_core.worker.process.worker import GpuProcessWorker

GPUS = {1: ("virtual-0", "virtual-1", "virtual-2", "virtual-3"), 2: ("virtual-4", "virtual-5")}


def main(out: Path) -> None:
    """Write the files."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write(out / "ledger.sql", ledger_dump(folder / "ledger.db"))
        environment = run_environment(folder)
        save_checkpoints(folder, environment)
        checkpoints = {
            file.name: base64.b64encode(file.read_bytes()).decode()
            for file in sorted((folder / "store" / "run-1").iterdir())
        }
        write(out / "checkpoints.json", json.dumps(checkpoints, indent=2))
        write(out / "checkpoint_report.json", (folder / "rundir" / "checkpoint.json").read_text())
        text = json.dumps(environment, indent=2).replace(str(folder), "TMP")
        write(out / "environment.json", text)
    template = GpuProcessWorker.get_default_base_job_template()
    write(out / "base_job_template.json", json.dumps(template, indent=2))


def write(file: Path, text: str) -> None:
    file.write_text(f"{text}\n")


def at(second: int) -> datetime:
    return datetime(2026, 1, 2, 3, 4, second, 123456, tzinfo=UTC)


def ledger_dump(file: Path) -> str:
    """A ledger with an open attempt of each of two runs, as SQL."""
    with Ledger.open(f"sqlite:///{file}") as ledger:
        for number, name in ((1, "running"), (2, "ended")):
            ledger.admit([(_run(number, name), _attempt(number))])
            ledger.mark_started(
                f"attempt-{number}",
                started_at=at(11),
                pid=1000 + number,
                pid_created_at=1000.5 + number,
            )
        ledger.heartbeat(at(20), {"attempt-1": None, "attempt-2": None})
    with closing(sqlite3.connect(file)) as database:
        return "\n".join(database.iterdump())


def _run(number: int, name: str) -> RunRecord:
    return RunRecord(
        flow_run_id=f"run-{number}",
        name=name,
        flow_name="count_until_released",
        deployment="count_until_released/d",
        pool="POOL",
        queue="low",
        team="vision",
        user=None,
        project="p",
        experiment="p",
        model="resnet",
        workload_type="training",
        priority=100,
        submitted_at=at(1),
    )


def _attempt(number: int) -> Attempt:
    return Attempt(
        attempt_id=f"attempt-{number}",
        flow_run_id=f"run-{number}",
        number=1,
        pool="POOL",
        host="HOST",
        node="HOST",
        gpu_type="a100-80gb",
        gpu_ids=GPUS[number],
        capacity_type="on-demand",
        price_micro_usd_per_gpu_hour=3_600_000,
        admitted_at=at(10),
        shares=(NodeShare(node="HOST", gpu_ids=GPUS[number]),),
    )


def run_environment(folder: Path) -> dict[str, str]:
    """What the worker passes to the run that runs."""
    return RunContext(
        flow_run_id="run-1",
        attempt=1,
        attempt_id="attempt-1",
        name="running",
        devices=GPUS[1],
        gpu_type="a100-80gb",
        run_dir=str(folder / "rundir"),
        checkpoint_uri=str(folder / "store"),
        checkpoint_interval_s=1,
        checkpoint_interval_adapts=True,
        checkpoints_kept=2,
        capacity_since=at(0),
        team="vision",
        project="p",
        deployment="count_until_released/d",
    ).to_environment()


def save_checkpoints(folder: Path, environment: dict[str, str]) -> None:
    """Save 40 and 41, as a run does."""
    (folder / "rundir").mkdir()
    os.environ.update(environment)
    with checkpointing() as ckpt:
        ckpt.restore(0)
        for number in (40, 41):
            ckpt.save(number)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
