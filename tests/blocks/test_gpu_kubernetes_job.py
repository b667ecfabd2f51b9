"""A container in the midst of a flow is a run of the GPU pool, and nothing else."""

import gc
import warnings
from collections.abc import Iterator

import anyio
import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.objects import FlowRun, State
from prefect.states import Completed, Failed
from pydantic import ValidationError

from blocks.gpu_kubernetes_job import GpuJobFailed, GpuKubernetesJob, GpuKubernetesJobRun
from flows.run_container import run_container
from gpu_core.decisions.errors import InvalidInput

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
    assert run.job_variables == {"image": "cuda:12", "command": "nvidia-smi -L", "gpu_count": 2}
    assert (run.work_pool_name, run.work_queue_name) == (POOL, "low")
    assert run.state is not None
    assert run.state.is_scheduled()


async def test_without_an_image_the_pools_own_is_left_alone() -> None:
    run = read(await GpuKubernetesJob(command=["python", "-V"]).trigger())
    assert run.job_variables == {"command": ["python", "-V"]}


async def test_within_a_flow_it_is_a_part_of_that_flow() -> None:
    @flow
    async def outer() -> GpuKubernetesJobRun:
        job_run: GpuKubernetesJobRun = await GpuKubernetesJob(command="true").trigger()
        end(job_run, Completed())
        await job_run.wait_for_completion()
        return job_run

    assert read(await outer()).parent_task_run_id is not None


async def test_success_and_what_it_came_to() -> None:
    job_run = await GpuKubernetesJob(command="true").trigger()
    end(job_run, Completed(message="Completed."))
    await job_run.wait_for_completion()
    result = await job_run.fetch_result()
    assert (result.state, result.message, result.lines) == ("Completed", "Completed.", ())


async def test_a_failure_is_raised_with_its_reason() -> None:
    job_run = await GpuKubernetesJob(command="false").trigger()
    end(job_run, Failed(message="Failure 3 of 3: exit code 1; it is not tried again."))
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
        pytest.param({"command": "echo 'a"}, "cannot be split", id="an open quote"),
        pytest.param({"command": "true", "timeout_s": 0}, "greater than 0", id="no time"),
    ],
)
def test_what_cannot_run_is_refused_when_it_is_saved(fields: dict[str, object], want: str) -> None:
    with pytest.raises((ValidationError, InvalidInput), match=want):
        GpuKubernetesJob(**fields)
