"""A container during a flow is a run of the GPU pool, and nothing else."""

import gc
import warnings
from collections.abc import Iterator
from uuid import UUID

import anyio
import pytest
from prefect import flow, task
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.objects import FlowRun, State
from prefect.context import FlowRunContext
from prefect.flow_engine import run_flow_async
from prefect.states import AwaitingRetry, Cancelled, Completed, Crashed, Failed
from pydantic import ValidationError

from blocks import gpu_kubernetes_job
from blocks.gpu_kubernetes_job import GpuJobFailed, GpuKubernetesJob, GpuKubernetesJobRun
from flows.run_container import run_container
from gpu_core.adapters.prefect.flow_runs import read_parent
from gpu_core.decisions.model.errors import InvalidInput

# Every test has a loop of its own, and Prefect's client leaves a connection behind when its loop
# ends: it is the garbage collector that closes it, with a warning.
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:unclosed transport:ResourceWarning"),
]

POOL = "gpu-of-blocks"


@pytest.fixture
def anyio_backend() -> str:
    """Prefect's clients are built on asyncio."""
    return "asyncio"


@pytest.fixture(scope="module", autouse=True)
def _deployment(prefect_server: None) -> Iterator[None]:
    """The stock deployment on a pool without workers."""

    async def create() -> None:
        async with get_client() as client:
            await client.create_work_pool(WorkPoolCreate(name=POOL, type="gpu-kubernetes"))
            await client.create_work_queue(name="low", work_pool_name=POOL)
            await client.create_deployment(
                flow_id=await client.create_flow(run_container),
                name="container-job",
                work_pool_name=POOL,
                entrypoint="flows/run_container.py:run_container",
            )

    anyio.run(create)
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def read(job_run: GpuKubernetesJobRun) -> FlowRun:
    """The run as Prefect has it."""
    with get_client(sync_client=True) as client:
        return client.read_flow_run(job_run.flow_run_id)


def end(job_run: GpuKubernetesJobRun, state: State) -> None:
    """Play the worker: the run has ended."""
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(job_run.flow_run_id, state, force=True)


async def test_it_is_submitted_to_the_pool_with_its_image_command_and_variables() -> None:
    block = GpuKubernetesJob(
        command="nvidia-smi -L", image="cuda:12", job_variables={"gpu_count": 2}, queue="low"
    )
    run = read(await block.trigger())
    assert run.job_variables == {
        "image": "cuda:12",
        "container_command": "nvidia-smi -L",
        "gpu_count": 2,
    }
    assert (run.work_pool_name, run.work_queue_name) == (POOL, "low")
    assert run.state is not None
    assert run.state.is_scheduled()


async def test_without_an_image_the_pools_own_is_left_alone() -> None:
    run = read(await GpuKubernetesJob(command=["python", "-V"]).trigger())
    assert run.job_variables == {"container_command": ["python", "-V"]}


async def test_what_an_attempt_submitted_before_an_upgrade_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The key has the names of version 0.1, in which `command` was the container's."""
    asked: list[object] = []

    async def key_of(*parts: object) -> tuple[None, None]:
        asked.extend(parts)
        return None, None

    monkeypatch.setattr(gpu_kubernetes_job, "_idempotency_key", key_of)
    block = GpuKubernetesJob(command="true", image="cuda:12", job_variables={"gpu_count": 2})
    await block.trigger()
    variables = {"gpu_count": 2, "image": "cuda:12", "command": "true"}
    assert asked == [block.deployment, variables, None]
    assert list(variables) == ["gpu_count", "image", "command"]


async def test_within_a_flow_it_is_a_part_of_that_flow() -> None:
    @flow
    async def outer() -> tuple[GpuKubernetesJobRun, UUID]:
        job_run: GpuKubernetesJobRun = await GpuKubernetesJob(command="true").trigger()
        end(job_run, Completed())
        await job_run.wait_for_completion()
        context = FlowRunContext.get()
        assert context is not None
        assert context.flow_run is not None
        return job_run, context.flow_run.id

    job_run, outer_id = await outer()
    async with get_client() as client:
        assert await read_parent(client, read(job_run)) == str(outer_id)
        assert await read_parent(client, await client.read_flow_run(outer_id)) is None


async def test_a_flow_that_goes_on_elsewhere_finds_what_it_submitted() -> None:
    """Two calls stay two, although they ask for the same."""
    seen: list[list[UUID]] = []

    @flow
    async def outer() -> None:
        first = await GpuKubernetesJob(command="true").trigger()
        second = await GpuKubernetesJob(command="true").trigger()
        other = await GpuKubernetesJob(command="false").trigger()
        seen.append([each.flow_run_id for each in (first, second, other)])
        if len(seen) == 1:
            end(first, Completed())
            raise RuntimeError("its node is taken away")

    async with get_client() as client:
        parent = await client.create_flow_run(outer)
        with pytest.raises(RuntimeError):
            await run_flow_async(outer, flow_run=parent)
        await client.set_flow_run_state(parent.id, AwaitingRetry(), force=True)
        await run_flow_async(outer, flow_run=await client.read_flow_run(parent.id))
    assert seen[0] == seen[1]
    assert len(set(seen[0])) == 3


async def test_the_order_of_different_calls_does_not_matter() -> None:
    seen: list[dict[str, UUID]] = []

    @flow(retries=1)
    async def outer() -> None:
        commands = ["a", "b"] if not seen else ["b", "a"]
        runs = {name: await GpuKubernetesJob(command=name).trigger() for name in commands}
        seen.append({name: run.flow_run_id for name, run in runs.items()})
        if len(seen) == 1:
            raise RuntimeError("once more")

    await outer()
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("state", "want_known"),
    [
        pytest.param(Completed(), True, id="it has completed"),
        pytest.param(Failed(), False, id="it failed"),
        pytest.param(Crashed(), False, id="it crashed"),
        pytest.param(Cancelled(), False, id="it was cancelled"),
    ],
)
async def test_a_flow_that_is_tried_again_repeats_only_what_failed(
    state: State, want_known: bool
) -> None:
    seen: list[UUID] = []

    @flow(retries=1)
    async def outer() -> None:
        job_run = await GpuKubernetesJob(command="true").trigger()
        seen.append(job_run.flow_run_id)
        if len(seen) == 1:
            end(job_run, state)
            raise RuntimeError("once more")

    await outer()
    assert (seen[0] == seen[1]) is want_known


def test_tasks_at_the_same_time_have_runs_of_their_own() -> None:
    seen: list[dict[int, UUID]] = []

    @task
    def one(number: int) -> UUID:
        job_run: GpuKubernetesJobRun = GpuKubernetesJob(command="true").trigger()
        return job_run.flow_run_id

    @flow(retries=1)
    def outer() -> None:
        numbers = [1, 1, 2] if not seen else [2, 1, 1]
        futures = [(number, one.submit(number)) for number in numbers]
        seen.append({number: future.result() for number, future in futures if number == 2})
        same = {future.result() for number, future in futures if number == 1}
        assert len(same) == 2
        everybody.append(same)
        if len(seen) == 1:
            raise RuntimeError("once more")

    everybody: list[set[UUID]] = []
    outer()
    assert seen[0] == seen[1]
    assert everybody[0] == everybody[1]
    assert not everybody[0] & set(seen[0].values())


async def test_what_cannot_be_recognized_is_submitted_each_time() -> None:
    seen = [(await GpuKubernetesJob(command="true").trigger()).flow_run_id for _ in range(2)]

    @flow
    async def outer() -> None:
        parent = FlowRunContext.get()
        assert parent is not None
        for _ in range(2):  # each as in a process of its own
            with parent.model_copy(update={"detached": True, "task_run_dynamic_keys": {}}):
                job_run = await GpuKubernetesJob(command="true").trigger()
                seen.append(job_run.flow_run_id)

    await outer()
    assert len(set(seen)) == 4


async def test_success_and_what_it_came_to() -> None:
    job_run = await GpuKubernetesJob(command="true").trigger()
    end(job_run, Completed(message="Completed."))
    await job_run.wait_for_completion()
    result = await job_run.fetch_result()
    assert (result.state, result.message, result.lines) == ("Completed", "Completed.", ())


async def test_a_failure_is_raised_with_its_reason() -> None:
    job_run = await GpuKubernetesJob(command="false").trigger()
    end(job_run, Failed(message="Failure 3 of 3: exit code 1. The run is not retried."))
    with pytest.raises(GpuJobFailed, match="Failed: Failure 3 of 3: exit code 1"):
        await job_run.wait_for_completion()


async def test_waiting_ends_with_its_time() -> None:
    job_run = await GpuKubernetesJob(command="true", timeout_s=1).trigger()
    with pytest.raises(TimeoutError):
        await job_run.wait_for_completion()


async def test_a_run_that_waits_in_line_can_be_cancelled() -> None:
    job_run = await GpuKubernetesJob(command="true").trigger()
    await job_run.cancel()
    state = read(job_run).state
    assert state is not None
    assert state.is_cancelling() or state.is_cancelled()


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({"command": ""}, "is not a command", id="an empty command"),
        pytest.param({"command": "echo 'a"}, "is not a valid command", id="an open quote"),
        pytest.param({"command": "true", "timeout_s": 0}, "greater than 0", id="no time"),
    ],
)
def test_what_cannot_run_is_refused_when_it_is_saved(fields: dict[str, object], want: str) -> None:
    with pytest.raises((ValidationError, InvalidInput), match=want):
        GpuKubernetesJob(**fields)
