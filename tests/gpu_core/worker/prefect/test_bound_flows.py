"""A flow that is bound to a pool is queued, and its worker schedules nothing."""

import gc
import shlex
from collections.abc import Iterator
from types import SimpleNamespace
from uuid import UUID

import anyio
import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.objects import StateType, WorkPoolStorageConfiguration
from prefect.states import Completed
from prefect.workers.base import BaseWorker

from gpu_core.decisions.kubernetes.manifests.engine_commands import is_bundle
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.worker import WORKERS
from gpu_core.worker.prefect import bound_flows
from gpu_core.worker.prefect.bound_flows import enqueue_again
from tests.end_to_end.bound_flow import bound
from tests.support.bundle_storage import storage_configuration

# Prefect calls the submission with a worker experimental. Its client leaves a connection behind
# when its loop ends: it is the garbage collector that closes it, with a warning (`collected`).
pytestmark = [
    pytest.mark.filterwarnings("ignore:Ad-hoc flow submission:FutureWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

KEY = "5f0c9f2e-7d0b-4a8e-9f57-0d9a1c0b2e11"
RUN = UUID(int=7)


@pytest.fixture
def collected() -> Iterator[None]:
    """Collects garbage here, where the warning is ignored, and not during any other test."""
    yield
    gc.collect()


@flow(persist_result=False)
def nothing() -> None:
    """Do nothing."""


class Client:
    """Prefect's client, as far as it is used."""

    def __init__(self):
        self.states = []

    async def set_flow_run_state(self, flow_run_id, state, force=False):
        self.states.append((flow_run_id, state.type.value, force))


def run_with(**variables):
    return SimpleNamespace(id=RUN, name="gentle-owl", job_variables=variables)


def pool_with(step):
    storage = SimpleNamespace(bundle_upload_step=step, default_result_storage_block_id=None)
    return SimpleNamespace(name="gpu", storage_configuration=storage)


STEP = {"team.upload": {"launcher": ["python"], "folder": "/bundles"}}


def test_a_run_that_is_tried_again_finds_the_new_code_where_its_command_looks(monkeypatch):
    uploaded = []

    async def upload(bundle, key, command, **_options):
        uploaded.append((bundle, key, command))

    monkeypatch.setattr(bound_flows, "aupload_bundle_to_storage", upload)
    monkeypatch.setattr(
        bound_flows,
        "create_bundle_for_flow_run",
        lambda flow, flow_run: {"bundle": (flow, flow_run.id), "zip_path": None},
    )
    client = Client()
    run = run_with(command=f"python -m team.execute --folder /bundles --key {KEY}")
    anyio.run(enqueue_again, client, pool_with(STEP), nothing, run)
    command = ["python", "-m", "team.upload", "--folder", "/bundles", "--key", KEY]
    assert uploaded == [((nothing, RUN), KEY, command)]
    assert client.states == [(RUN, "SCHEDULED", True)]


@pytest.mark.parametrize(
    ("step", "variables", "want"),
    [
        pytest.param(STEP, {}, "flow_run was not submitted as a bundle", id="a deployment's"),
        pytest.param(
            STEP,
            {"command": "prefect flow-run execute"},
            "Submit the flow as a new run",
            id="no key",
        ),
        pytest.param(None, {"command": f"x --key {KEY}"}, "no bundle storage", id="no storage"),
    ],
)
def test_what_cannot_be_tried_again_stays_as_it_is(step, variables, want):
    client = Client()
    with pytest.raises(InvalidInput, match=want):
        anyio.run(enqueue_again, client, pool_with(step), nothing, run_with(**variables))
    assert client.states == []


@pytest.mark.parametrize("worker_type", WORKERS)
def test_what_is_submitted_with_a_worker_is_queued_and_not_started(worker_type):
    worker = WORKERS[worker_type](work_pool_name="gpu")
    worker._client = client = Client()
    anyio.run(worker._initiate_run, run_with(), SimpleNamespace())
    assert client.states == [(RUN, "SCHEDULED", False)]


@pytest.mark.parametrize("worker_type", WORKERS)
def test_a_worker_that_was_not_started_schedules_nothing(worker_type, monkeypatch):
    """It would take the lead of the pool from within a person's program."""

    async def connected(_worker):
        pass

    monkeypatch.setattr(BaseWorker, "setup", connected)
    worker = WORKERS[worker_type](work_pool_name="gpu")
    anyio.run(worker.setup)
    assert worker._tasks is None
    worker._work_pool = SimpleNamespace(id=RUN)
    anyio.run(worker._setup_cancellation_observer)
    assert worker._cancelling_observer is None


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize("worker_type", WORKERS)
def test_prefects_server_has_what_is_submitted_in_the_queue(prefect_server, worker_type, tmp_path):
    """Once with a new run, and again with that run when it has ended."""
    pool, worker_class = f"bound-{worker_type}", WORKERS[worker_type]

    async def submit(client, run=None):
        async with worker_class(work_pool_name=pool) as worker:
            future = await worker.submit(bound, {"folder": "x"}, {"gpu_count": 2}, run)
        return await client.read_flow_run(future.flow_run_id)

    async def story():
        async with get_client() as client:
            template = worker_class.get_default_base_job_template()
            storage = WorkPoolStorageConfiguration(**storage_configuration(tmp_path))
            await client.create_work_pool(
                WorkPoolCreate(
                    name=pool,
                    type=worker_type,
                    base_job_template=template,
                    storage_configuration=storage,
                )
            )
            run = await submit(client)
            assert (run.state.type, run.work_pool_name) == (StateType.SCHEDULED, pool)
            assert run.job_variables["gpu_count"] == 2
            command = shlex.split(run.job_variables["command"])
            assert is_bundle(command, has_deployment=run.deployment_id is not None)
            (bundle,) = tmp_path.iterdir()
            bundle.unlink()
            await client.set_flow_run_state(run.id, Completed(), force=True)
            again = await submit(client, run)
            assert (again.id, again.state.type) == (run.id, StateType.SCHEDULED)
            assert [path.name for path in tmp_path.iterdir()] == [bundle.name]

    anyio.run(story)
