"""Whatever happens to a pool on one machine: no run is lost, doubled, or charged for it.

Judged by what the runs themselves write, not by the ledger. `make chaos` plays longer stories:
`PREFECT_GPU_CHAOS_RUNS` runs for each of `PREFECT_GPU_CHAOS_SEEDS` seeds.
"""

import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import httpx
import pytest

from tests.end_to_end import chaos_body
from tests.end_to_end.chaos import LASTS_S, Kind, PoolChaos, small_disk
from tests.end_to_end.conftest import FLOWS, POLICY
from tests.support.chaos_judge import TERMINAL, ChaosRun, Fate, histories, violations
from tests.support.faults import agenda
from tests.support.postgresql import new_database, stoppable_postgresql
from tests.support.prefect_stack import ENGINE, Pool, new_server
from tests.support.waiting import wait_for

Answer = TypeVar("Answer")

RUNS_IN_CI = 9
RUNS = int(os.environ.get("PREFECT_GPU_CHAOS_RUNS", RUNS_IN_CI))
SEEDS = int(os.environ.get("PREFECT_GPU_CHAOS_SEEDS", "1"))
RUNS_PER_FAULT = 3
PAGE = 200
IS_LONG = RUNS > RUNS_IN_CI

# A story in CI has three faults. Prefect's server on SQLite may stand still for a minute after
# the death of a client, so that its story has a fault that kills none.
KINDS_IN_CI = {
    "postgresql": (Kind.WORKER_KILLED, Kind.SERVER_KILLED, Kind.DATABASE_STOPPED),
    "sqlite": (Kind.LAUNCHER_KILLED, Kind.STATE_DELETED, Kind.DATABASE_STOPPED),
}

CHAOS_COMMAND = f"{sys.executable} -I -S {Path(chaos_body.__file__)}"
QUEUES = ("critical", "high", "medium", "low")


@dataclass(frozen=True, kw_only=True)
class Part:
    """What a run of the story is like, its size apart.

    Attributes:
        is_flow: Whether Prefect's engine runs it.
        steps: How many steps it has at least and at most, a quarter of a second each.
    """

    is_flow: bool
    queue: str
    steps: tuple[int, int] = (2, 8)
    saves: bool = False
    fate: Fate = Fate.COMPLETES
    failures: int = 0
    max_failures: int = 1


# In CI each comes once. Most runs may not fail at all: one wrong charge ends them.
PARTS = (
    Part(is_flow=True, queue="low", saves=True, steps=(24, 40)),
    Part(is_flow=False, queue="low", steps=(24, 40)),
    Part(is_flow=True, queue="medium", failures=1, max_failures=2),
    Part(is_flow=False, queue="critical"),
    Part(is_flow=False, queue="medium", fate=Fate.FAILS, failures=9, max_failures=2),
    Part(is_flow=True, queue="high", fate=Fate.CANCELLED),
    Part(is_flow=False, queue="low", steps=(16, 32)),
    Part(is_flow=False, queue="medium"),
    Part(is_flow=True, queue="critical", saves=True),
)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Where a story happens."""

    chaos: PoolChaos
    folder: Path
    kinds: tuple[Kind, ...]
    min_runtime_s: int


@pytest.fixture
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """A Prefect server, its database and a pool of 4 GPUs that all belong to one story."""
    database, min_runtime_s = request.param
    policy = POLICY.replace("count: 8", "count: 4")
    policy = policy.replace("min_runtime: 0s", f"min_runtime: {min_runtime_s}s")
    folder = tmp_path / "journal"
    folder.mkdir()
    postgresql = stoppable_postgresql() if database == "postgresql" else nullcontext()
    with (
        postgresql as stoppable,
        new_server(tmp_path / "server", stoppable and stoppable.address) as server,
        small_disk(tmp_path / "pool") as has_small_disk,
    ):
        ledger_url = stoppable and new_database(stoppable.address)
        pool = Pool(server, tmp_path / "pool", policy, ledger_url=ledger_url)
        try:
            yield Stage(
                chaos=PoolChaos(pool, server, stoppable, tmp_path / "pool"),
                folder=folder,
                kinds=_kinds(database, has_small_disk),
                min_runtime_s=min_runtime_s,
            )
        finally:
            pool.close()
            pool.print_logs()


def _kinds(database: str, has_small_disk: bool) -> tuple[Kind, ...]:
    if not IS_LONG:
        return KINDS_IN_CI[database]
    return tuple(kind for kind in Kind if has_small_disk or kind is not Kind.DISK_FULL)


def stages() -> list[object]:
    """Each database, with and without a minimum runtime; in CI each once."""
    every = [("postgresql", 4), ("sqlite", 0), ("postgresql", 0), ("sqlite", 4)]
    return [
        pytest.param(
            (database, min_runtime_s),
            id=f"{database}, min_runtime {min_runtime_s} s",
            marks=pytest.mark.postgresql if database == "postgresql" else (),
        )
        for database, min_runtime_s in (every if IS_LONG else every[:2])
    ]


@pytest.mark.timeout(240 + 60 * RUNS)
@pytest.mark.parametrize("stage", stages(), indirect=True)
@pytest.mark.parametrize("seed", range(1, 1 + SEEDS))
def test_no_run_is_lost_doubled_or_charged_for_a_fault(stage: Stage, seed: int) -> None:
    chaos, draws = stage.chaos, random.Random(seed)
    story = Story(stage, draws)
    chaos.pool.start_worker()
    faults = agenda(seed, RUNS // RUNS_PER_FAULT, stage.kinds, LASTS_S)
    for number, fault in enumerate(faults):
        story.submit(range(number * RUNS_PER_FAULT, (number + 1) * RUNS_PER_FAULT))
        # The next fault hits something that works; but where nothing does, it comes all the same.
        story.wait_for_ends(number * RUNS_PER_FAULT // 2, timeout_s=60)
        story.wait_for(story.runs_something, "a body runs", timeout_s=60)
        chaos.do(fault)
        story.cancel_some()
    story.wait_for_ends(None, timeout_s=120 + 30 * RUNS)

    events, states = chaos_body.read(stage.folder), story.states()
    found = violations(story.runs, events, states, chaos.spans, min_runtime_s=stage.min_runtime_s)
    if not chaos.pool.worker_lives():
        found["worker"] = ["the worker ended by itself"]
    print(story.summary(seed, events, found))
    assert not found, "\n".join(
        [
            *(f"{run}: {'; '.join(wrong)}" for run, wrong in found.items()),
            histories(story.runs, events, states, chaos.spans, found),
        ]
    )


class Story:
    """The runs of one story."""

    def __init__(self, stage: Stage, draws: random.Random) -> None:
        self._stage = stage
        self._pool: Pool = stage.chaos.pool
        self._draws = draws
        self._began_s = time.monotonic()
        self._to_cancel: list[str] = []
        self._parts: dict[str, Part] = {}
        self._submitted_again: set[str] = set()
        self.runs: list[ChaosRun] = []
        self._deployments = {
            (is_flow, queue): self._pool.deploy(
                f"{FLOWS}:{'disturbed' if is_flow else 'do_nothing'}", queue
            )
            for is_flow in (True, False)
            for queue in QUEUES
        }

    def submit(self, numbers: range) -> None:
        """Put the runs of these numbers in line."""
        for number in numbers:
            self._submit(f"run-{number}", PARTS[number % len(PARTS)])

    def _submit(self, name: str, part: Part) -> None:
        plan = {
            "steps": self._draws.randint(*part.steps),
            "step_s": 0.25,
            "failures": part.failures,
        }
        variables = {
            "gpu_count": self._draws.choice((1, 2, 4)),
            "max_failures": part.max_failures,
        }
        parameters = None
        folder = str(self._stage.folder)
        if part.is_flow:
            parameters = {"folder": folder, "plan": plan, "keeps": part.saves}
            # Of a cancellation a run hears from Prefect's own launcher, which takes long to start.
            if not IS_LONG and part.fate is not Fate.CANCELLED:
                variables |= ENGINE
        else:
            variables |= {
                "command": CHAOS_COMMAND,
                "env": {"CHAOS_FOLDER": folder, "CHAOS_PLAN": json.dumps(plan)},
            }
        deployment = self._deployments[part.is_flow, part.queue]
        run = patiently(lambda: self._pool.submit(deployment, name, parameters, **variables))
        self.runs.append(
            ChaosRun(
                flow_run_id=run,
                name=name,
                fate=part.fate,
                failures=part.failures,
                max_failures=part.max_failures,
                saves=part.saves,
            )
        )
        self._parts[run] = part
        if part.fate is Fate.CANCELLED:
            self._to_cancel.append(run)

    def cancel_some(self) -> None:
        """Cancel what a person is to cancel, wherever it is by now."""
        self._cancel(self._to_cancel)
        self._to_cancel.clear()

    def _cancel(self, runs: Iterable[str]) -> None:
        for run in runs:
            patiently(
                lambda r=run: self._pool.call(
                    "POST", f"/flow_runs/{r}/set_state", {"state": {"type": "CANCELLING"}}
                )
            )

    def wait_for_ends(self, count: int | None, timeout_s: float) -> None:
        """Wait until so many runs are over, None: all; or the time is."""

        def are_over() -> bool:
            self._cancel_without_queue()
            ids = [run.flow_run_id for run in self.runs]
            over = {"id": {"any_": ids}, "state": {"type": {"any_": sorted(TERMINAL)}}}
            counted = patiently(
                lambda: self._pool.call("POST", "/flow_runs/count", {"flow_runs": over})
            )
            return counted >= (len(ids) if count is None else count)

        self.wait_for(are_over, f"{count or 'all'} runs are over", timeout_s)

    def _cancel_without_queue(self) -> None:
        """Cancel what can never start, and submit it again.

        With a pool Prefect deletes the queue of its waiting runs: only a new submission has one.
        """
        if not any(span.what.startswith(Kind.POOL_MADE_AGAIN) for span in self._stage.chaos.spans):
            return
        queueless = {run["id"]: run for run in self._read() if run["work_queue_id"] is None}
        waiting = {id_ for id_, run in queueless.items() if run["state_type"] == "SCHEDULED"}
        self._cancel(waiting)
        new = [run for run in self.runs if run.flow_run_id in waiting - self._submitted_again]
        self._submitted_again |= waiting
        self.runs = [
            replace(run, fate=Fate.WITHOUT_QUEUE) if run.flow_run_id in queueless else run
            for run in self.runs
        ]
        for run in new:
            self._submit(f"{run.name}-again", self._parts[run.flow_run_id])

    def _read(self) -> Iterator[dict]:
        """All runs, as Prefect has them: it answers with so many at a time."""
        ids = [run.flow_run_id for run in self.runs]
        for first in range(0, len(ids), PAGE):
            body = {"flow_runs": {"id": {"any_": ids[first : first + PAGE]}}}
            yield from patiently(lambda b=body: self._pool.call("POST", "/flow_runs/filter", b))

    def wait_for(self, condition: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Wait until the condition holds, or the time is over: the judge says what is wrong."""
        try:
            wait_for(condition, what, timeout_s)
        except AssertionError as late:
            print(late)

    def runs_something(self) -> bool:
        """Has a body started that has not come to an end?"""
        newest = {event["run"]: event["what"] for event in chaos_body.read(self._stage.folder)}
        return not {"begin", "saved"}.isdisjoint(newest.values())

    def states(self) -> dict[str, list[dict]]:
        """Of each run its states in Prefect."""
        return {
            run.flow_run_id: patiently(lambda r=run: self._pool.states(r.flow_run_id))
            for run in self.runs
        }

    def summary(self, seed: int, events: list[dict], found: dict[str, list[str]]) -> str:
        """What the story was like, in a few lines."""
        bodies = sum(event["what"] == "begin" for event in events)
        ends = sum(event["what"] == "stopped" for event in events)
        return "\n".join(
            [
                f"\nchaos, seed {seed}, {time.monotonic() - self._began_s:.0f} s: "
                f"{len(self.runs)} runs, {bodies} bodies, {ends} stopped, "
                f"{len(found)} runs with violations",
                *(f"  {span.what}" for span in self._stage.chaos.spans),
            ]
        )


def patiently(call: Callable[[], Answer], timeout_s: float = 600.0) -> Answer:
    """Call Prefect's API; right after an outage of its database it answers with errors."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return call()
        except (AssertionError, httpx.TransportError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
