"""A scheduler with everything of its own and nothing beyond: no server, no processes.

The real reading path, planning, ledger, budgets and endings; Prefect and the infrastructure are
values in memory.
"""

from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import anyio
import httpx
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import Flow, FlowRun
from prefect.client.schemas.responses import SetStateStatus
from prefect.exceptions import ObjectNotFound
from prefect.states import Running, Scheduled

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.policy.policy import Policy
from gpu_core.worker import GpuProcessWorker
from gpu_core.worker.infrastructure import Started
from gpu_core.worker.prefect.starts_first import StartsFirst
from gpu_core.worker.process.infrastructure import ProcessInfrastructure
from gpu_core.worker.scheduler import GpuScheduler
from gpu_core.worker.startup.connections import Connections
from gpu_core.worker.startup.settings import GpuWorkerSettings

TEMPLATE = GpuProcessWorker.get_default_base_job_template()
POOL, QUEUE, FLOW = UUID(int=1), UUID(int=2), UUID(int=3)


def run_id(number: int) -> UUID:
    """The id of the test's run with this number."""
    return UUID(int=1_000 + number)


class FakePrefect:
    """Prefect with the runs of one queue."""

    def __init__(self) -> None:
        self.runs: dict[UUID, FlowRun] = {}
        self.artifacts: list[Any] = []
        # The worker asks whether the API is there.
        there = httpx.MockTransport(lambda _request: httpx.Response(200))
        self._client = httpx.AsyncClient(transport=there, base_url="http://127.0.0.1")

    def submit(self, number: int, variables: dict[str, Any], **fields: Any) -> UUID:
        """A run waits from now on."""
        key = run_id(number)
        state = Scheduled(scheduled_time=datetime.now(UTC) - timedelta(seconds=1))
        run = FlowRun(
            id=key, flow_id=FLOW, name=f"run-{number}", state=state, job_variables=variables
        )
        self.runs[key] = run.model_copy(
            update={"state_type": state.type, "expected_start_time": state.timestamp, **fields}
        )
        return key

    async def request(self, method: str, path: str, **options: Any) -> Any:
        """The queue, how many runs are in such states, or a change that is not read."""
        if method != "POST":
            return SimpleNamespace(json=dict)
        if path == "/flow_runs/count":
            wanted = FlowRunFilter.model_validate(options["json"]["flow_runs"])
            count = len(self._found(wanted))
            return SimpleNamespace(json=lambda: count)
        assert path.endswith("get_scheduled_flow_runs")
        waiting = [run for run in self.runs.values() if run.state and run.state.is_scheduled()]
        rows = [
            {
                "work_pool_id": str(POOL),
                "work_queue_id": str(QUEUE),
                "flow_run": run.model_dump(mode="python"),
            }
            for run in waiting
        ]
        return SimpleNamespace(json=lambda: rows)

    async def read_work_queues(self, **_options: Any) -> Any:
        return [SimpleNamespace(id=QUEUE, name="medium")]

    async def read_flow(self, flow_id: UUID) -> Flow:
        return Flow(id=flow_id, name="train")

    async def read_flow_run(self, flow_run_id: UUID) -> FlowRun:
        if flow_run_id not in self.runs:
            raise ObjectNotFound(Exception(flow_run_id))
        return self.runs[flow_run_id]

    async def read_flow_runs(self, *, flow_run_filter: Any, **_options: Any) -> list[FlowRun]:
        return self._found(flow_run_filter)

    def _found(self, wanted: FlowRunFilter) -> list[FlowRun]:
        """The runs with these ids, in these states."""
        ids = () if wanted.id is None else wanted.id.any_ or ()
        runs = [self.runs[key] for key in ids if key in self.runs]
        types = None if wanted.state is None else wanted.state.type
        if types is None:
            return runs
        among, not_among = types.any_, types.not_any_ or ()
        return [
            run
            for run in runs
            if (among is None or run.state_type in among) and run.state_type not in not_among
        ]

    async def read_flow_run_states(self, _flow_run_id: UUID) -> list[Any]:
        return []

    async def set_flow_run_state(self, flow_run_id: UUID, state: Any, **_options: Any) -> Any:
        update = {"state": state, "state_type": state.type}
        self.runs[flow_run_id] = self.runs[flow_run_id].model_copy(update=update)
        return SimpleNamespace(status=SetStateStatus.ACCEPT, details=None, state=state)

    async def update_flow_run(self, *_arguments: Any, **_options: Any) -> None:
        pass

    async def read_artifacts(self, **_options: Any) -> list[Any]:
        return []

    async def create_artifact(self, artifact: Any) -> Any:
        self.artifacts.append(artifact)
        return SimpleNamespace(id=UUID(int=4))

    async def update_artifact(self, _artifact_id: UUID, artifact: Any) -> None:
        self.artifacts.append(artifact)

    def state(self, number: int) -> str:
        """Name and message of this run's state."""
        state = self.runs[run_id(number)].state
        return "" if state is None else f"{state.name}: {state.message}"

    def message(self, number: int) -> str:
        """What the page of this run says of its state."""
        state = self.runs[run_id(number)].state
        return (state and state.message) or ""


class FakeProcesses(ProcessInfrastructure):
    """A machine on which whatever is admitted runs until its test ends it."""

    def __init__(self, policy: Policy, nodes: Sequence[Node]) -> None:
        super().__init__(policy, lambda: None, GpuWorkerSettings())
        self._nodes = tuple(nodes)
        self.ended: set[str] = set()
        """Attempts of which nothing runs any more, by id."""

    async def find(self, attempts: Sequence[Any]) -> dict[str, Started]:
        started = Started(started_at=datetime.now(UTC), identity="pid", pid=1, pid_created_at=1.0)
        return {a.attempt_id: started for a in attempts if a.attempt_id not in self.ended}

    def watch(self, running: Any) -> None:
        pass

    def lives(self, running: Any) -> bool:
        return running.attempt.attempt_id not in self.ended

    async def kill(self, running: Any) -> bool:
        self.ended.add(running.attempt.attempt_id)
        return True

    async def terminate(self, running: Any) -> None:
        self.ended.add(running.attempt.attempt_id)


class OnePool:
    """A scheduler, and what it schedules on."""

    def __init__(
        self,
        tmp_path: Path,
        ledger: Ledger,
        prefect: FakePrefect,
        nodes: Sequence[Node],
        policy: Policy | None = None,
        name: str = "gpus",
        hidden: Callable[[str], str] = str,
        patience_s: float = 600.0,
    ) -> None:
        self.hidden = hidden
        self._patience_s = patience_s
        self.name = name
        self.prefect = prefect
        self.ledger = ledger
        self.policy = policy or Policy(version=1)
        self.infrastructure = FakeProcesses(self.policy, nodes)
        self._state_dir = tmp_path
        self.scheduler: GpuScheduler

    @asynccontextmanager
    async def scheduling(self) -> Any:
        """As the acting worker of the pool, from its recovery on."""
        async with anyio.create_task_group() as tasks:
            self.scheduler = GpuScheduler(
                client=self.prefect,  # type: ignore[arg-type] # what is asked of it is above
                pool=self.name,
                queues=set(),
                settings=GpuWorkerSettings(state_dir=self._state_dir),
                connections=Connections(ledger_url="", mlflow=None, checkpoint_uri="unused"),
                ledger=self.ledger,
                policies=SimpleNamespace(current=lambda: self.policy, text=None, notice=None),  # type: ignore[arg-type]
                infrastructure=self.infrastructure,
                tasks=tasks,
                wake=lambda: None,
                starts=StartsFirst(),
                hidden=self.hidden,
            )
            # A busy machine takes longer than a cycle would wait.
            self.scheduler._queue._reads._patience_s = self._patience_s
            self.scheduler._deployments._reads._patience_s = self._patience_s
            self.scheduler.terminator._states._patience_s = self._patience_s
            self.scheduler._running_poll._reads._patience_s = self._patience_s
            await self.scheduler.recover(TEMPLATE)
            yield self
            tasks.cancel_scope.cancel()

    async def cycle(self) -> set[UUID]:
        """One cycle, and what it says to those that wait. Returns who was admitted."""
        admitted = await self.scheduler.cycle(TEMPLATE, set())
        for response in admitted:
            self.scheduler.claim(str(response.flow_run.id))
            await self.prefect.set_flow_run_state(response.flow_run.id, Running())
        await self.scheduler.publish()
        return {response.flow_run.id for response in admitted}

    def holding(self) -> set[UUID]:
        """Whose attempts are open in the ledger."""
        attempts = self.ledger.open_attempts(self.name, self.infrastructure.host)
        return {UUID(attempt.flow_run_id) for attempt in attempts}


def refused_request(status: int) -> httpx.HTTPStatusError:
    """What Prefect's client raises for such an answer."""
    request = httpx.Request("POST", "http://127.0.0.1/api")
    return httpx.HTTPStatusError("refused", request=request, response=httpx.Response(status))
