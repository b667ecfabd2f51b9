"""A block for running a container on GPUs within a flow."""

import threading
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import anyio
from prefect.blocks.abstract import JobBlock, JobRun
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterIdempotencyKey,
    LogFilter,
    LogFilterFlowRunId,
    LogFilterTimestamp,
)
from prefect.client.schemas.objects import FlowRun, State
from prefect.client.schemas.sorting import LogSort
from prefect.context import FlowRunContext, TaskRunContext
from prefect.deployments import arun_deployment
from prefect.states import Cancelling
from prefect.utilities.asyncutils import sync_compatible
from prefect.utilities.hashing import hash_objects
from pydantic import Field, HttpUrl, field_validator

from gpu_core.decisions.kubernetes.variables.variables import parse_pod_request

# How many lines Prefect's API returns at most in one answer.
_PAGE = 200

_LOOK_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuJobResult:
    """The result of a container."""

    flow_run_id: UUID
    state: str
    """The name of the run's state in Prefect, such as `Completed`."""
    message: str | None
    lines: tuple[str, ...]
    """The log of the run: the container's output and what the worker says of it."""


class GpuJobFailed(RuntimeError):
    """Raised when the run of a container ended without success, with the message of its state."""


class GpuKubernetesJobRun(JobRun[GpuJobResult]):
    """A container that has been submitted to a GPU pool.

    Args:
        flow_run_id: The ID of the flow run in Prefect.
        timeout_s: The number of seconds to wait for completion, including the time in the queue. If
            None, there is no timeout.
    """

    def __init__(self, flow_run_id: UUID, timeout_s: int | None) -> None:
        self.flow_run_id = flow_run_id
        self._timeout_s = timeout_s

    @sync_compatible
    async def wait_for_completion(self) -> None:
        """Waits until the run has completed, including all attempts.

        Raises:
            GpuJobFailed: The run ended without success.
            TimeoutError: The run did not complete within `timeout_s`. The run is not stopped.
        """
        with anyio.fail_after(self._timeout_s):
            state = await self._final_state()
        if not state.is_completed():
            raise GpuJobFailed(f"{state.name}: {state.message}")

    @sync_compatible
    async def fetch_result(self) -> GpuJobResult:
        """Returns the current state and output of the run. After the end of the run, the output is
        complete."""
        async with get_client() as client:
            run = await client.read_flow_run(self.flow_run_id)
            lines = await self._lines()
        return GpuJobResult(
            flow_run_id=self.flow_run_id,
            state="Unknown" if run.state is None else run.state.name or run.state.type.value,
            message=None if run.state is None else run.state.message,
            lines=lines,
        )

    @sync_compatible
    async def cancel(self) -> None:
        """Requests cancellation of the run. `wait_for_completion` then reports that the run was
        cancelled."""
        async with get_client() as client:
            await client.set_flow_run_state(self.flow_run_id, Cancelling())

    async def _final_state(self) -> State[Any]:
        # Asked for again and again: Prefect's own way to wait needs a websocket, which not every
        # proxy lets through.
        async with get_client() as client:
            while True:
                state = (await client.read_flow_run(self.flow_run_id)).state
                if state is not None and state.is_final():
                    return state
                await anyio.sleep(_LOOK_S)

    async def _lines(self) -> tuple[str, ...]:
        async with get_client() as client:
            return await output_of(client, self.flow_run_id)


async def output_of(client: PrefectClient, flow_run_id: UUID) -> tuple[str, ...]:
    """All lines in the log of a run, by time, each of them once.

    Lines of the same time have no order, and a line may arrive late. So the next page begins with
    the time at which the last one ended, not behind a number of lines.

    Args:
        client: Prefect's client.
        flow_run_id: Of which run.
    """
    found: dict[UUID, str] = {}
    since, offset = None, 0
    while True:
        wanted = LogFilter(
            flow_run_id=LogFilterFlowRunId(any_=[flow_run_id]),
            timestamp=None if since is None else LogFilterTimestamp(after_=since),
        )
        page = await client.read_logs(
            wanted, limit=_PAGE, offset=offset, sort=LogSort.TIMESTAMP_ASC
        )
        found.update((line.id, line.message) for line in page)
        if len(page) < _PAGE:
            return tuple(found.values())
        # More lines of one time than a page has: only their number leads on.
        offset = offset + _PAGE if page[-1].timestamp == since else 0
        since = page[-1].timestamp


# JobBlock[...] would make a block type of its own in this module.
class GpuKubernetesJob(JobBlock):  # type: ignore[type-arg]
    """Runs a container on GPUs within a flow. The container is queued, placed, preempted, retried
    and charged like any other run of the GPU pool.

    Example:
        Run a container and wait for it:
        ```python
        from gpu_core.blocks.gpu_kubernetes_job import GpuKubernetesJob

        gpu_kubernetes_job = GpuKubernetesJob.load("BLOCK_NAME")
        job_run = gpu_kubernetes_job.trigger()
        job_run.wait_for_completion()
        ```
    """

    _block_type_name = "GPU Kubernetes Job"
    _block_type_slug = "gpu-kubernetes-job"
    _documentation_url = HttpUrl("https://docs.prefect.io/v3/concepts/work-pools")

    command: str | list[str] = Field(
        description="The command to run in the container. Text is split into words in the same "
        "way as in a shell.",
        examples=["nvidia-smi"],
    )
    image: str | None = Field(
        default=None,
        description="The container image to use. Defaults to the image of the work pool.",
    )
    job_variables: dict[str, Any] = Field(
        default_factory=dict,
        description="Additional job variables for the GPU pool, for example gpu_count and "
        "gpu_type.",
        examples=[{"gpu_count": 2, "gpu_type": "a100-80gb"}],
    )
    deployment: str = Field(
        default="run-container/container-job",
        description="The deployment that represents containers on the GPU pool.",
    )
    queue: str | None = Field(
        default=None,
        description="The work queue of the pool. Defaults to the work queue of the deployment.",
    )
    timeout_s: int | None = Field(
        default=None,
        gt=0,
        description="The number of seconds to wait for completion, including the time in the "
        "queue. By default, there is no timeout.",
    )

    @field_validator("command")
    @classmethod
    def _is_a_command(cls, value: str | list[str]) -> str | list[str]:
        parse_pod_request({"container_command": value})
        return value

    @sync_compatible
    async def trigger(self) -> GpuKubernetesJobRun:
        """Submits the container to the GPU pool. The container may wait in the queue before it
        starts.

        If the flow is retried because it was preempted or has failed, the container that was
        submitted before is used again, unless it has failed. A container that has failed is
        submitted again.
        """
        image = {} if self.image is None else {"image": self.image}
        variables = {**self.job_variables, **image}
        # The key has the name that the variable had at first, so that what an attempt submitted
        # before the worker was upgraded is found.
        asked = {**variables, "command": self.command}
        key, known = await _idempotency_key(self.deployment, asked, self.queue)
        # What is known is asked for again, too: Prefect counts the parts of a flow by their
        # turn, and those that follow would be taken for this one.
        run = await arun_deployment(
            self.deployment,
            timeout=0,
            job_variables={**variables, "container_command": self.command},
            work_queue_name=self.queue,
            idempotency_key=key,
        )
        if known is None:
            self.logger.info("Submitted %s as flow run %r", self.command, run.name)
        else:
            self.logger.info(
                "Using flow run %r, which was submitted for %s by an earlier attempt",
                run.name,
                self.command,
            )
        return GpuKubernetesJobRun(run.id, self.timeout_s)


# Tasks of a flow that run in threads submit at the same time.
_TURNS = threading.Lock()


async def _idempotency_key(*asked: object) -> tuple[str | None, FlowRun | None]:
    """Which call is this among all others, the same in every attempt of the flow that makes it?

    It is the flow's run, what is asked for, by which task with which arguments, and the turn among
    calls that are the same in all of this. A turn whose run ended without success is passed over.
    The order of calls that ask for different things does not matter.

    Returns:
        The key and the run that has it already; None: an earlier attempt cannot be recognized.
        That is so outside of a flow, and in tasks that run in other processes, such as Dask's,
        because each of those would count its turns by itself.
    """
    parent = FlowRunContext.get()
    call = None if parent is None else _call(parent, *asked)
    if parent is None or call is None:
        return None, None
    async with get_client() as client:
        while True:
            key = f"{call}/{_next_turn(parent, call)}"
            wanted = FlowRunFilter(idempotency_key=FlowRunFilterIdempotencyKey(any_=[key]))
            found = await client.read_flow_runs(flow_run_filter=wanted, limit=1)
            if not found:
                return key, None
            state = found[0].state
            if state is None or not state.is_final() or state.is_completed():
                return key, found[0]


def _call(parent: FlowRunContext, *asked: object) -> str | None:
    if parent.flow_run is None or parent.detached:
        return None
    task, by = TaskRunContext.get(), None
    if task is not None and task.task_run.flow_run_id == parent.flow_run.id:
        # A task whose result was kept is not run again: its turns must not pass to another one.
        by = (task.task.task_key, task.parameters)
    content = hash_objects(asked, by)
    return None if content is None else f"gpu-kubernetes-job/{parent.flow_run.id}/{content}"


def _next_turn(parent: FlowRunContext, call: str) -> int:
    """Counted where Prefect counts a flow's calls of tasks, which begins anew with each attempt."""
    with _TURNS:
        turn = int(parent.task_run_dynamic_keys.get(call, 0))
        parent.task_run_dynamic_keys[call] = turn + 1
    return turn
