"""What is done to a gpu-process pool, its worker, Prefect and their databases while runs run."""

import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import psutil

from tests.support.chaos_judge import Span
from tests.support.faults import Fault
from tests.support.postgresql import PostgresqlServer
from tests.support.prefect_stack import Pool, PrefectServer


class Kind(StrEnum):
    """What can be done to a pool on one machine."""

    WORKER_KILLED = "worker killed"
    WORKER_STOPPED = "worker stopped and started again"
    WORKER_PAUSED = "worker paused (SIGSTOP)"
    LAUNCHER_KILLED = "launcher killed"
    SERVER_KILLED = "Prefect server killed"
    DATABASE_STOPPED = "database stopped"
    STATE_DELETED = "state folder deleted"
    DISK_FULL = "disk full"
    POOL_MADE_AGAIN = "pool deleted and made again"
    POLICY_BROKEN = "policy broken"


# How long each lasts, at least and at most.
LASTS_S: Mapping[StrEnum, tuple[float, float]] = {
    Kind.WORKER_KILLED: (0, 4),
    Kind.WORKER_STOPPED: (0, 2),
    Kind.WORKER_PAUSED: (1, 8),
    Kind.SERVER_KILLED: (0, 15),
    Kind.DATABASE_STOPPED: (1, 10),
    Kind.DISK_FULL: (2, 8),
    Kind.POLICY_BROKEN: (1, 5),
}

# While these last, Prefect's API or the ledger may not answer, and an end may reach no run.
_OUTAGES = frozenset({Kind.SERVER_KILLED, Kind.DATABASE_STOPPED, Kind.DISK_FULL})

# checkpointing() refuses to begin with less than 64 MiB.
_DISK_MIB = 256


class Missed(Exception):
    """There was nothing to hit."""


@dataclass
class PoolChaos:
    """Does the faults to one pool.

    Attributes:
        database: The PostgreSQL server of Prefect and the ledger; None: both are SQLite files.
        disk: Where the pool's state, and its ledger on SQLite, are.
        spans: What was done, and when.
    """

    pool: Pool
    server: PrefectServer
    database: PostgresqlServer | None
    disk: Path
    spans: list[Span] = field(default_factory=list)

    def do(self, fault: Fault) -> None:
        """Wait a moment and do it. Returns when what was stopped works again."""
        time.sleep(fault.wait_s)
        began_s = time.time()
        try:
            what = f"{fault.kind}, {self._actions[fault.kind](fault)}"
        except Missed as reason:
            what = f"no {fault.kind}: {reason}"
        self.spans.append(
            Span(
                what=what,
                began_s=began_s,
                ended_s=time.time(),
                is_outage=fault.kind in _OUTAGES,
            )
        )

    @property
    def _actions(self) -> Mapping[StrEnum, Callable[[Fault], str]]:
        return {
            Kind.WORKER_KILLED: self._kill_worker,
            Kind.WORKER_STOPPED: self._stop_worker,
            Kind.WORKER_PAUSED: self._pause_worker,
            Kind.LAUNCHER_KILLED: self._kill_launcher,
            Kind.SERVER_KILLED: self._kill_server,
            Kind.DATABASE_STOPPED: self._stop_database,
            Kind.STATE_DELETED: self._delete_state,
            Kind.DISK_FULL: self._fill_disk,
            Kind.POOL_MADE_AGAIN: self._make_pool_again,
            Kind.POLICY_BROKEN: self._break_policy,
        }

    def _kill_worker(self, fault: Fault) -> str:
        self.pool.kill_worker()
        time.sleep(fault.lasts_s)
        self.pool.start_worker()
        return f"the next one started {fault.lasts_s:.1f} s later"

    def _stop_worker(self, fault: Fault) -> str:
        self.pool.stop_worker()
        time.sleep(fault.lasts_s)
        self.pool.start_worker()
        return f"the next one started {fault.lasts_s:.1f} s later"

    def _pause_worker(self, fault: Fault) -> str:
        self.pool.signal_worker(signal.SIGSTOP)
        try:
            time.sleep(fault.lasts_s)
        finally:
            self.pool.signal_worker(signal.SIGCONT)
        return f"for {fault.lasts_s:.1f} s"

    def _kill_launcher(self, fault: Fault) -> str:
        launchers = [process for process in self.pool.processes() if _is_launcher(process)]
        if not launchers:
            raise Missed("no run had one")
        launcher = launchers[int(fault.draw * len(launchers))]
        try:
            run = launcher.environ()["PREFECT__FLOW_RUN_ID"]
            launcher.kill()
        except psutil.NoSuchProcess:
            raise Missed("it ended at that moment") from None
        return f"that of run {run}"

    def _kill_server(self, fault: Fault) -> str:
        os.killpg(self.server.service.process.pid, signal.SIGKILL)
        self.server.service.process.wait()
        time.sleep(fault.lasts_s)
        self.server.restart()
        return f"started again {fault.lasts_s:.1f} s later"

    def _stop_database(self, fault: Fault) -> str:
        if self.database is None:
            files = [
                Path(self.server.environment["PREFECT_HOME"]) / "prefect.db",
                Path(self.pool.ledger_url.removeprefix("sqlite:///")),
            ]
            with _locked(files[0]), _locked(files[1]):
                time.sleep(fault.lasts_s)
            return f"both SQLite files locked for {fault.lasts_s:.1f} s"
        self.database.stop()
        time.sleep(fault.lasts_s)
        self.database.start()
        return f"PostgreSQL was away for {fault.lasts_s:.1f} s"

    def _delete_state(self, _: Fault) -> str:
        shutil.rmtree(self.pool.state_dir, ignore_errors=True)
        return "with the folders of all runs"

    def _fill_disk(self, fault: Fault) -> str:
        filling = self.disk / "filling"
        block = b"0" * 2**16
        try:
            with filling.open("wb", buffering=0) as file:
                while file.write(block) == len(block):
                    pass
        except OSError:
            pass
        time.sleep(fault.lasts_s)
        filling.unlink()
        return f"for {fault.lasts_s:.1f} s"

    def _make_pool_again(self, _: Fault) -> str:
        self.pool.make_again()
        return "with its queues and deployments"

    def _break_policy(self, fault: Fault) -> str:
        text = self.pool.policy_path.read_text()
        self.pool.policy_path.write_text("version: 1\nprices: [")
        time.sleep(fault.lasts_s)
        self.pool.policy_path.write_text(text)
        return f"for {fault.lasts_s:.1f} s"


def _is_launcher(process: psutil.Process) -> bool:
    try:
        return any(word.endswith("launcher.py") for word in process.cmdline())
    except psutil.Error:
        return False


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """No other process writes to this SQLite database while the context lasts."""
    with closing(sqlite3.connect(file, timeout=60, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        yield
        database.execute("ROLLBACK")


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """Mount a small disk at this folder. False: this user may not, and it stays a folder."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MIB}m", "tmpfs", folder],
        check=False, capture_output=True,
    )  # fmt: skip
    try:
        yield mounted.returncode == 0
    finally:
        if mounted.returncode == 0:
            # Lazily: a process of a run may have it as its working folder until it is reaped.
            subprocess.run(["umount", "--lazy", folder], check=True)
