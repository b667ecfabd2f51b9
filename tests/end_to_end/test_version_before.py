"""What the version before this one left behind is taken over: ledger, run, checkpoint and pool."""

import base64
import json
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

from blocks.checkpoint_store import CheckpointStore
from blocks.mlflow_tracking import MLflowTracking
from blocks.usage_ledger import UsageLedger
from gpu_core.decisions.model.attempts import EndReason
from tests.end_to_end.conftest import FLOWS, closed
from tests.support.prefect_stack import ENGINE, Pool, PrefectServer
from tests.support.waiting import wait_for

RECORDED = Path(__file__).with_name("version_before")
NEWEST_CHECKPOINT = "000001-00000002"
SAVED = "41"


class LeftBehind:
    """A pool of the version before: one run that runs, and one that ended while no worker acted."""

    def __init__(self, server: PrefectServer, folder: Path) -> None:
        template = json.loads(recorded("base_job_template.json"))
        (folder / "pool").mkdir()
        self.pool = Pool(
            server, folder / "pool", recorded("policy.yaml"), edited=lambda _: template
        )
        self._server = server
        self.folder = folder
        deployment = self.pool.deploy(f"{FLOWS}:count_until_released", queue="low", **ENGINE)
        parameters: dict[str, object] = {"folder": str(folder)}
        self.running = self.pool.submit(deployment, "running", parameters, gpu_count=4)
        self.ended = self.pool.submit(deployment, "ended", parameters, gpu_count=2)
        self._attempts = {"attempt-1": str(uuid4()), "attempt-2": str(uuid4())}
        self.process = self._started()
        # To the minute, as the recorded seconds stay.
        self._minute = datetime.now(UTC) - timedelta(minutes=2)
        self.ended_at = self._minute.replace(second=40, microsecond=0)
        self._end()
        self._write_ledger()

    def _started(self) -> psutil.Popen:
        """The process that the version before has started, with its mark and its files."""
        run_dir = self._run_dir(self.running, "attempt-1")
        checkpoints = self.folder / "pool" / "checkpoints" / self.running
        checkpoints.mkdir(parents=True)
        for name, content in json.loads(recorded("checkpoints.json")).items():
            (checkpoints / name).write_bytes(base64.b64decode(content))
        report = self._filled(recorded("checkpoint_report.json"))
        (run_dir / "checkpoint.json").write_text(report)
        environment = json.loads(self._filled(recorded("environment.json")))
        environment |= {"PREFECT_GPU_RUN_DIR": str(run_dir), "CUDA_VISIBLE_DEVICES": "0,1,2,3"}
        self._set_state(self.running, "PENDING")
        return psutil.Popen(
            [sys.executable, "-I", "-S", str(RECORDED / "running.py"), report],
            env={**self._server.environment, **environment},
            cwd=run_dir,
            start_new_session=True,
        )

    def _end(self) -> None:
        """The other run came to its end before any worker of this version started."""
        run_dir = self._run_dir(self.ended, "attempt-2")
        for state in ("PENDING", "RUNNING", "COMPLETED"):
            self._set_state(self.ended, state)
        exit_report = {
            "exit_code": 0,
            "started_at": (self.ended_at - timedelta(seconds=20)).isoformat(),
            "ended_at": self.ended_at.isoformat(),
        }
        (run_dir / "exit.json").write_text(json.dumps(exit_report))

    def _write_ledger(self) -> None:
        text = self._filled(recorded("ledger.sql"))
        text = text.replace("2026-01-02 03:04:", f"{self._minute:%Y-%m-%d %H:%M:}")
        text = text.replace("1001.5", f"{self.process.create_time():.2f}")
        text = text.replace(",1001,", f",{self.process.pid},")
        text = text.replace(",1002,", f",{_number_of_a_process_that_ended()},")
        with closing(sqlite3.connect(self.folder / "pool" / "ledger.db")) as ledger:
            ledger.executescript(text)

    def _filled(self, text: str) -> str:
        known = {
            **self._attempts,
            "run-1": self.running,
            "run-2": self.ended,
            "POOL": self.pool.name,
            "HOST": socket.gethostname(),
            "TMP/store": str(self.folder / "pool" / "checkpoints"),
        }
        for placeholder, value in known.items():
            text = text.replace(placeholder, value)
        return text

    def _run_dir(self, run: str, attempt: str) -> Path:
        name = f"attempt-1-{self._attempts[attempt][:8]}"
        run_dir = self.pool.state_dir / "runs" / run / name
        run_dir.mkdir(parents=True)
        return run_dir

    def _set_state(self, run: str, state: str) -> None:
        self.pool.call("POST", f"/flow_runs/{run}/set_state", {"state": {"type": state}})

    def close(self) -> None:
        """End what is left of it."""
        self.pool.close()
        if self.process.is_running():
            self.process.kill()
        self.process.wait()
        self.pool.print_logs()


@pytest.fixture
def left_behind(server: PrefectServer, tmp_path: Path) -> Iterator[LeftBehind]:
    """A pool of the version before."""
    left = LeftBehind(server, tmp_path)
    yield left
    left.close()


@pytest.mark.postgresql
def test_what_the_version_before_left_running_is_adopted_and_goes_on(left_behind, journal):
    """Its process holds its GPUs, gives way in good order, and the next attempt has its state."""
    pool, running = left_behind.pool, left_behind.running
    pool.wait_until(running, "Running")

    pool.start_worker()

    wait_for(lambda: closed(pool, left_behind.ended, 1), "the ended run is settled")
    (ended,) = pool.attempts(left_behind.ended)
    assert ended.end_reason is EndReason.COMPLETED
    assert (ended.released_at, ended.is_end_estimated) == (left_behind.ended_at, False)
    assert left_behind.process.is_running()
    assert pool.state(running) == "Running"

    tiny = pool.deploy(f"{FLOWS}:do_nothing", queue="critical", **journal.variables())
    urgent = pool.submit(tiny, "urgent", gpu_count=8)
    pool.wait_until(urgent, "Completed")
    (left_behind.folder / "release").touch()
    pool.wait_until(running, "Completed")

    wait_for(lambda: closed(pool, running, 2), "both attempts are settled")
    first, second = pool.attempts(running)
    assert first.end_reason is EndReason.PREEMPTED
    assert first.checkpoint == f"{running}/{NEWEST_CHECKPOINT}"
    assert second.restored_from == f"{running}/{NEWEST_CHECKPOINT}"
    assert (left_behind.folder / "began-2").read_text() == SAVED


@pytest.mark.parametrize(
    ("block", "data"),
    [
        pytest.param(UsageLedger, {"url": "postgresql://gpu:pw@db/ledger"}, id="usage ledger"),
        pytest.param(CheckpointStore, {"uri": "s3://bucket/checkpoints"}, id="checkpoint store"),
        pytest.param(
            MLflowTracking,
            {"tracking_uri": "http://mlflow:5000", "username": "gpu", "password": "pw"},
            id="MLflow tracking",
        ),
        pytest.param(MLflowTracking, {"tracking_uri": "http://mlflow:5000"}, id="open MLflow"),
    ],
)
def test_a_block_of_the_version_before_can_be_loaded(block, data):
    loaded = block.model_validate(data)
    for field, value in data.items():
        kept = getattr(loaded, field)
        assert (kept if isinstance(kept, str) else kept.get_secret_value()) == value


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()


def _number_of_a_process_that_ended() -> int:
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", ""]) as process:
        return process.pid
