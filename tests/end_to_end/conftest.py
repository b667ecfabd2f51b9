"""A Prefect server for all end-to-end tests, and a pool of its own for each."""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.support.prefect_stack import Pool, PrefectServer

FLOWS = "tests/end_to_end/flows.py"
TINY_COMMAND = f"{sys.executable} -I -S {Path(__file__).with_name('tiny_run.py')}"

POLICY = """
version: 1
prices: {a100-80gb: {on-demand: 3.6}}
virtual_gpus: {gpu_type: a100-80gb, count: 8}
preemption: {grace_period: 20s, min_runtime: 0s}
checkpoints: {interval: 1s}
"""


@pytest.fixture
def server(request: pytest.FixtureRequest) -> PrefectServer:
    """The server whose fixture the test names; without a name, the one on PostgreSQL."""
    return request.getfixturevalue(getattr(request, "param", "prefect_on_postgresql"))


@pytest.fixture
def new_pool(server: PrefectServer, tmp_path: Path) -> Iterator[Callable[..., Pool]]:
    """Makes pools; stops their workers and runs afterwards."""
    pools: list[Pool] = []

    def make(policy: str = POLICY) -> Pool:
        folder = tmp_path / f"pool-{len(pools)}"
        folder.mkdir()
        pools.append(Pool(server, folder, policy))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()
        pool.print_logs()


@pytest.fixture
def pool(new_pool: Callable[..., Pool]) -> Pool:
    """A pool of 8 virtual GPUs."""
    return new_pool()


@dataclass(frozen=True, slots=True)
class Journal:
    """What runs noted about themselves."""

    path: Path

    def variables(
        self,
        seconds: float = 0.3,
        release: Path | None = None,
        gate: Path | None = None,
        **more: object,
    ) -> dict[str, object]:
        """The job variables that make a run one of the tiny ones.

        It is Running only when `gate` is there, and ends early with `release`.
        """
        environment = {"TINY_JOURNAL": str(self.path), "TINY_SECONDS": str(seconds)}
        if release is not None:
            environment["TINY_RELEASE"] = str(release)
        if gate is not None:
            environment["TINY_GATE"] = str(gate)
        return {"command": TINY_COMMAND, "env": environment, **more}

    def entries(self, what: str | None = None) -> list[dict]:
        """What was noted, in order; `begin` or `end` only, if asked for."""
        if not self.path.exists():
            return []
        entries = [json.loads(line) for line in self.path.read_text().splitlines()]
        return [entry for entry in entries if what in (None, entry["what"])]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """An empty journal."""
    return Journal(tmp_path / "journal.jsonl")


def closed(pool: Pool, run: str, attempts: int) -> bool:
    """Has the run this many attempts, all closed?"""
    found = pool.attempts(run)
    return len(found) == attempts and all(attempt.released_at for attempt in found)


def is_alive(process: psutil.Process) -> bool:
    """Does it run? One that ended and that its parent has not waited for does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def processes_of(run: str) -> list[psutil.Process]:
    """The living processes of a run."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("PREFECT__FLOW_RUN_ID") == run:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found
