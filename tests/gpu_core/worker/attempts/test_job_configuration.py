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
from gpu_core.worker.attempts.job_configuration import configured
from gpu_core.worker.infrastructure import Refused

ID = UUID(int=1)
WORKER = {"worker_name": "worker", "worker_id": UUID(int=2)}
FLOW = Flow(id=ID, name="train")


class Server:
    """Knows the run's flow; any other question is refused."""

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
    # With an image nothing searches for the one that suits this commit of Prefect.
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


def test_a_template_that_makes_no_job_refuses_the_run_with_its_fault():
    template = GpuKubernetesWorker.get_default_base_job_template()
    template["job_configuration"]["job_manifest"]["spec"]["template"]["spec"]["containers"] = []
    kind = GpuKubernetesWorker.type
    pool = WorkPool(id=ID, name="gpus", type=kind, base_job_template=template, default_queue_id=ID)
    run = FlowRun(id=ID, flow_id=FLOW.id, name="run", job_variables={"image": "busybox"})
    running = SimpleNamespace(deployment=None, record=SimpleNamespace(flow_name=FLOW.name))

    async def ours():
        await configured(
            *(GpuKubernetesWorker.job_configuration, run, running),
            client=Server(),
            work_pool=pool,
            worker=WORKER,
        )

    with pytest.raises(Refused, match=r"^The pool's base job template is invalid \(") as refused:
        anyio.run(ours)
    assert "/spec/template/spec/containers/0" in str(refused.value)
    assert "\n" not in str(refused.value)


def item(name, value):
    return {"name": name, "value": value}


SECRET = {"name": "K", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}

MIXED = [
    pytest.param({}, {"A": "1", "B": "1"}, [item("B", "2")], {"A": "1", "B": "2"}, id="run's list"),
    pytest.param(
        {}, [item("A", "1"), item("B", "1")], {"B": "2"}, {"A": "1", "B": "2"}, id="mapping"
    ),
    pytest.param({}, [item("A", "1")], [item("B", "2")], {"B": "2"}, id="of two lists the run's"),
    pytest.param(
        {"A": "1"}, [item("B", "2")], ..., {"A": "1", "B": "2"}, id="over the pool's mapping"
    ),
    pytest.param(
        [item("A", "1")], ..., {"B": "2"}, {"A": "1", "B": "2"}, id="over the pool's list"
    ),
    pytest.param(
        [item("A", "1")], ..., [item("A", "2")], {"A": "2"}, id="the run's before the pool's"
    ),
    pytest.param({"A": "1"}, {"B": "1"}, None, {}, id="null takes all back"),
    pytest.param(
        {}, [item("A", "1"), item("B", "1")], {"A": None}, {"B": "1"}, id="null takes one"
    ),
    pytest.param(
        {}, [item("A", "1")], {"A": "2", "B": "3"}, {"A": "2", "B": "3"}, id="overwritten"
    ),
]


def made(worker, of_pool, of_deployment, of_run, **more):
    """The configuration of a run with these levels of `env`; ...: it has none."""
    template = worker.get_default_base_job_template()
    template["variables"]["properties"]["env"]["default"] = of_pool
    pool = WorkPool(
        id=ID, name="gpus", type=worker.type, base_job_template=template, default_queue_id=ID
    )
    image = {"image": "busybox"} if worker is GpuKubernetesWorker else {}
    levels = [{} if level is ... else {"env": level} for level in (of_deployment, of_run)]
    source = deployment({**image, **levels[0]})
    run = FlowRun(id=ID, flow_id=FLOW.id, name="run", job_variables={**levels[1], **more})
    running = SimpleNamespace(deployment=source, record=SimpleNamespace(flow_name=FLOW.name))
    before = copy.deepcopy((pool, run, source))

    async def make():
        return await configured(
            worker.job_configuration, run, running, client=Server(), work_pool=pool, worker=WORKER
        )

    found = anyio.run(make)
    assert (pool, run, source) == before
    return found


def own_variables(configuration):
    """The variables of the run itself, as its container or process has them."""
    manifest = getattr(configuration, "job_manifest", None)
    if manifest is None:
        found = configuration.env
    else:
        items = manifest["spec"]["template"]["spec"]["containers"][0]["env"]
        assert len({each["name"] for each in items}) == len(items)
        found = {each["name"]: each.get("value", each.get("valueFrom")) for each in items}
    return {name: value for name, value in found.items() if not name.startswith("PREFECT")}


@pytest.mark.parametrize("worker", [GpuKubernetesWorker, GpuProcessWorker])
@pytest.mark.parametrize(("of_pool", "of_deployment", "of_run", "want"), MIXED)
def test_a_mapping_and_a_list_are_merged_by_name(worker, of_pool, of_deployment, of_run, want):
    """Prefect's own merge fails, loses one of both or makes variables of the items' keys."""
    assert own_variables(made(worker, of_pool, of_deployment, of_run)) == want


def test_a_variable_from_a_secret_stays_one():
    found = made(GpuKubernetesWorker, {"A": "1"}, {"K": "plain"}, [SECRET], **{"env.B": "2"})
    assert own_variables(found) == {"A": "1", "B": "2", "K": SECRET["valueFrom"]}


def test_null_takes_a_variable_out_of_what_a_process_inherits():
    found = made(GpuProcessWorker, {}, [item("A", "1")], {"HOME": None})
    assert own_variables(found) == {"A": "1"}
    assert found.unset == {"HOME"}


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
