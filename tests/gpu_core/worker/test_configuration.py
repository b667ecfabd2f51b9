"""A run's job configuration is the one that Prefect itself would make, for fewer requests."""

import copy
from types import SimpleNamespace
from uuid import UUID

import anyio
import pytest
from prefect.client.schemas.objects import Flow, FlowRun, WorkPool
from prefect.client.schemas.responses import DeploymentResponse
from prefect.settings import (
    PREFECT_API_KEY,
    PREFECT_API_URL,
    PREFECT_SERVER_DATABASE_CONNECTION_URL,
    temporary_settings,
)
from prefect_kubernetes.worker import KubernetesWorkerJobConfiguration

from gpu_core.worker import GpuKubernetesWorker, GpuProcessWorker
from gpu_core.worker.configuration import configured

ID = UUID(int=1)
WORKER = {"worker_name": "worker", "worker_id": UUID(int=2)}
FLOW = Flow(id=ID, name="train")


class Server:
    """Knows the run's flow; whoever asks anything else is refused."""

    async def read_flow(self, flow_id):
        assert flow_id == FLOW.id
        return FLOW


def deployment(variables):
    return DeploymentResponse(id=ID, name="gpu", flow_id=FLOW.id, job_variables=variables)


@pytest.mark.parametrize("worker", [GpuKubernetesWorker, GpuProcessWorker])
@pytest.mark.parametrize(
    ("of_deployment", "of_run"),
    [
        pytest.param(None, None, id="a run without a deployment"),
        pytest.param({}, {}, id="no variables"),
        pytest.param({"name": "a", "env": {"A": "1"}}, {"name": "b"}, id="the run's count"),
        pytest.param(
            {"env": {"A": "1", "B": "2"}}, {"env": {"B": "3"}}, id="environments are merged"
        ),
        pytest.param({"env": {"A": "1"}}, {"env.A": "2"}, id="one variable of the environment"),
    ],
)
def test_it_is_what_prefect_would_make(worker, of_deployment, of_run):
    pool = WorkPool(
        id=ID,
        name="gpus",
        type=worker.type,
        base_job_template=worker.get_default_base_job_template(),
        default_queue_id=ID,
    )
    # With an image nobody looks for the one that suits this commit of Prefect.
    image = {"image": "busybox"} if worker is GpuKubernetesWorker else {}
    source = None if of_deployment is None else deployment({**image, **of_deployment})
    run = FlowRun(id=ID, flow_id=FLOW.id, name="run", job_variables=of_run or image)
    before = copy.deepcopy((pool, run, source))
    running = SimpleNamespace(deployment=source, record=SimpleNamespace(flow_name=FLOW.name))

    async def both():
        # Prefect's own comes last: it changes what it is given.
        ours = await configured(
            worker.job_configuration, run, running, client=Server(), work_pool=pool, worker=WORKER
        )
        assert (pool, run, source) == before
        theirs = await worker.job_configuration.resolve_for_flow_run(
            run, client=Server(), work_pool=pool, deployment=source, **WORKER
        )
        return ours, theirs

    ours, theirs = anyio.run(both)
    assert ours.model_dump() == theirs.model_dump()
    assert [r.model_dump() for r in ours._related_resources()] == [
        r.model_dump() for r in theirs._related_resources()
    ]


def test_the_environment_is_that_of_the_settings_in_force():
    kind = GpuProcessWorker.job_configuration
    kind._base_environment()
    with temporary_settings({PREFECT_API_URL: "http://elsewhere.example/api"}):
        first = kind._base_environment()
        first["OF_ONE_RUN"] = "1"
        assert kind._base_environment()["PREFECT_API_URL"] == "http://elsewhere.example/api"
        assert "OF_ONE_RUN" not in kind._base_environment()
    assert kind._base_environment().get("PREFECT_API_URL") != "http://elsewhere.example/api"


@pytest.mark.parametrize("worker", [GpuKubernetesWorker, GpuProcessWorker])
def test_the_environment_lacks_the_settings_of_the_server(worker):
    url = "postgresql+asyncpg://prefect:secret@db/prefect"
    settings = {PREFECT_SERVER_DATABASE_CONNECTION_URL: url, PREFECT_API_KEY: "key"}
    with temporary_settings(settings):
        found = worker.job_configuration._base_environment()
    assert found["PREFECT_API_KEY"] == "key"
    assert "secret" not in str(found)


@pytest.mark.parametrize(
    "label",
    [
        pytest.param(("team", "vision"), id="one that is accepted as it is"),
        pytest.param(("Team name", "Vision & co."), id="spaces and signs"),
        pytest.param(("example.com/a b", "-x-"), id="a prefix"),
    ],
)
def test_labels_are_those_that_prefect_kubernetes_gives(label):
    """Also a second time, when they are known."""

    def labels(kind):
        template = GpuKubernetesWorker.get_default_base_job_template()
        manifest = template["job_configuration"]["job_manifest"]
        manifest["metadata"]["labels"] = dict([label])
        configuration = kind.model_construct(
            job_manifest=manifest, labels={"prefect.io/flow-run-name": "A run: 1"}
        )
        configuration._slugify_labels()
        configuration._propagate_labels_to_pod()
        return manifest["metadata"]["labels"], manifest["spec"]["template"]["metadata"]["labels"]

    want = labels(KubernetesWorkerJobConfiguration)
    ours = GpuKubernetesWorker.job_configuration
    assert [labels(ours), labels(ours)] == [want, want]
