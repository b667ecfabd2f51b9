"""Every job variable of prefect-kubernetes: what the table in the documentation says of it holds.

Values come from a run, its deployment or the pool's default, and go the way of a run's: read by the
worker, rendered by Prefect, built into a Job.
"""

import copy
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import anyio
import pytest
from prefect.client.schemas.objects import Flow, FlowRun, WorkPool
from prefect.client.schemas.responses import DeploymentResponse
from prefect_kubernetes.worker import (
    KubernetesWorker,
    KubernetesWorkerJobConfiguration,
    KubernetesWorkerVariables,
)

from gpu_core.decisions.kubernetes.variables.prefect_fields import (
    NOT_OFFERED,
    PREFECT_FIELDS,
    Treatment,
    without_fields_not_offered,
)
from gpu_core.decisions.kubernetes.variables.variables import parse_pod_request
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.pydantic_errors import known_names
from gpu_core.testing.builders.attempts import NOON
from gpu_core.testing.builders.manifests import build, container_of, make_launch, pod_of
from gpu_core.testing.builders.workloads import make_policy
from gpu_core.worker import GpuKubernetesWorker
from gpu_core.worker.attempts.job_configuration import configured
from gpu_core.worker.kubernetes.variables import GpuKubernetesVariables
from gpu_core.worker.pending.demand import DemandReader
from tests.gpu_core.worker.kubernetes.of_cluster import of_cluster
from tests.support.queue import fixed_deployments

ID = UUID(int=1)
FLOW = Flow(id=ID, name="train")
FIELDS = {field.name: field for field in PREFECT_FIELDS}
OURS = GpuKubernetesWorker.get_default_base_job_template()


@dataclass(frozen=True)
class Source:
    """Where a value comes from."""

    where: str

    def of(self, variables):
        """The pool's template, the deployment and the run that say so."""
        template = copy.deepcopy(OURS)
        if self.where == "pool":
            for name, value in variables.items():
                template["variables"]["properties"].setdefault(name, {})["default"] = value
        deployment = DeploymentResponse(
            id=ID,
            name="gpu",
            flow_id=ID,
            job_variables=variables if self.where == "deployment" else {},
        )
        run = FlowRun(
            id=ID,
            flow_id=ID,
            deployment_id=ID,
            name="brave-fox",
            job_variables=variables if self.where == "run" else {},
        )
        return template, deployment, run


SOURCES = [pytest.param(Source(where), id=where) for where in ("run", "deployment", "pool")]


def read(template, deployment, run, policy=None):
    """The run as the worker reads it.

    Raises:
        InvalidInput: It is refused.
    """

    async def story():
        client = SimpleNamespace(read_deployment=_answer(deployment), read_flow=_answer(FLOW))
        infrastructure = of_cluster(SimpleNamespace(), template=lambda: template)
        reader = DemandReader(client, "gpu", infrastructure, fixed_deployments(client))
        return await reader.read(run, "medium", policy or make_policy(), template, NOON)

    return anyio.run(story)


def _answer(value):
    async def answer(_id):
        return value

    return answer


def job_of(source, variables):
    """The Job of a run for 2 GPUs with these variables."""
    template, deployment, run = source.of({"image": "busybox", "gpu_count": 2, **variables})
    demand = read(template, deployment, run)
    pool = WorkPool(
        id=ID, name="gpu", type="gpu-kubernetes", base_job_template=template, default_queue_id=ID
    )
    running = SimpleNamespace(deployment=deployment, record=SimpleNamespace(flow_name=FLOW.name))

    async def rendered():
        return await configured(
            GpuKubernetesWorker.job_configuration,
            run,
            running,
            client=SimpleNamespace(read_flow=_answer(FLOW)),
            work_pool=pool,
            worker={"worker_name": "worker", "worker_id": ID},
        )

    launch = make_launch(
        shape=demand.workload.shape._asdict(), pod=parse_pod_request(demand.variables)
    )
    (job,) = build(launch, anyio.run(rendered).job_manifest).jobs
    return job


def resources(job):
    found = container_of(job)["resources"]
    return {
        f"{name}_{kind.removesuffix('s')}": found[kind].get(name)
        for kind in ("requests", "limits")
        for name in ("cpu", "memory")
    }


def at(job, path):
    found: Any = job
    for part in path.split("/"):
        found = found[int(part) if isinstance(found, list) else part.replace("~", "/")]
    return found


CONTAINER = "spec/template/spec/containers/0"
METADATA = ("metadata", "spec/template/metadata")

# The value of a mapped variable, and where in the Job it has to be.
MAPPED = {
    "name": (
        "my-training",
        [(f"{m}/labels/prefect-gpu.dev~name", "my-training") for m in METADATA],
    ),
    "labels": ({"cost": "a1"}, [(f"{m}/labels/cost", "a1") for m in METADATA]),
    "annotations": ({"note": "a b"}, [(f"{m}/annotations/note", "a b") for m in METADATA]),
    "namespace": ("ml", [("metadata/namespace", "ml")]),
    "image": ("registry/train:1", [(f"{CONTAINER}/image", "registry/train:1")]),
    "image_pull_policy": ("Always", [(f"{CONTAINER}/imagePullPolicy", "Always")]),
    "service_account_name": ("trainer", [("spec/template/spec/serviceAccountName", "trainer")]),
    "command": (
        "uv run prefect flow-run execute",
        [(f"{CONTAINER}/args", ["uv", "run", "prefect", "flow-run", "execute"])],
    ),
    "finished_job_ttl": (3600, [("spec/ttlSecondsAfterFinished", 3600)]),
    "cpu_request": ("5", [(f"{CONTAINER}/resources/requests/cpu", "5")]),
    "cpu_limit": ("8", [(f"{CONTAINER}/resources/limits/cpu", "8")]),
    "memory_request": ("32Gi", [(f"{CONTAINER}/resources/requests/memory", "32Gi")]),
    "memory_limit": ("64Gi", [(f"{CONTAINER}/resources/limits/memory", "64Gi")]),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", sorted(MAPPED))
def test_a_mapped_variable_is_in_the_job(name, source):
    value, wanted = MAPPED[name]
    job = job_of(source, {name: value})
    assert [(path, at(job, path)) for path, _ in wanted] == wanted


@pytest.mark.parametrize("name", sorted(MAPPED))
def test_without_the_variable_its_value_is_not_in_the_job(name):
    """Otherwise the test above would say nothing."""
    job = job_of(Source("run"), {})
    _, wanted = MAPPED[name]
    for path, value in wanted:
        try:
            assert at(job, path) != value
        except KeyError:
            continue


@pytest.mark.parametrize("source", SOURCES)
def test_variables_of_the_environment_are_in_the_job(source):
    env = {"A": "1", "NVIDIA_VISIBLE_DEVICES": "all"}
    found = {
        item["name"]: item.get("value")
        for item in container_of(job_of(source, {"env": env}))["env"]
    }
    assert found["A"] == "1"
    assert "NVIDIA_VISIBLE_DEVICES" not in found


def test_without_a_service_account_no_token_is_mounted():
    pod = pod_of(job_of(Source("run"), {}))
    assert (pod.get("serviceAccountName"), pod["automountServiceAccountToken"]) == (None, False)


@pytest.mark.parametrize(
    ("variables", "want"),
    [
        pytest.param({}, ("6", "26Gi", None, "26Gi"), id="the policy's for 2 GPUs"),
        pytest.param(
            {"memory_limit": "64Gi", "cpu_limit": 8}, ("8", "64Gi", "8", "64Gi"),
            id="limits alone are the requests",
        ),
        pytest.param(
            {"memory_request": "32Gi", "memory_limit": "64Gi"}, ("6", "32Gi", None, "64Gi"),
            id="memory of a burst",
        ),
        pytest.param(
            {"memory_request": "32Gi"}, ("6", "32Gi", None, "32Gi"), id="a request is the limit"
        ),
        pytest.param(
            {"cpu_request": "250m", "cpu_limit": "1500m"}, ("250m", "26Gi", "1500m", "26Gi"),
            id="parts of a core",
        ),
        pytest.param(
            {"cpu_per_gpu": 2, "cpu_limit": "8", "memory_gib_per_gpu": 4, "memory_limit": "64Gi"},
            ("4", "8Gi", "8", "64Gi"),
            id="requests by GPU below limits by pod",
        ),
        pytest.param({"memory_limit": "64G"}, ("6", "61036Mi", None, "61036Mi"), id="powers of 10"),
    ],
)  # fmt: skip
def test_requests_and_limits(variables, want):
    found = resources(job_of(Source("run"), variables))
    assert tuple(found.values()) == want


def test_the_scheduler_plans_with_the_requests_that_the_pod_has():
    _, deployment, run = Source("run").of(
        {"gpu_count": 2, "cpu_request": "250m", "memory_limit": "64Gi"}
    )
    workload = read(OURS, deployment, run).workload
    assert (workload.shape.cpu_milli, workload.shape.memory_mib) == (250, 64 * 1024)


def test_shared_memory_is_half_of_the_limit():
    job = job_of(Source("run"), {"memory_request": "32Gi", "memory_limit": "64Gi"})
    (shm,) = [v for v in pod_of(job)["volumes"] if v.get("emptyDir", {}).get("medium") == "Memory"]
    assert shm["emptyDir"]["sizeLimit"] == "32Gi"


CLUSTER = {"$ref": {"block_document_id": "6a0c7e3e-0000-4000-8000-000000000001"}}
OTHER = {"$ref": {"block_document_id": "6a0c7e3e-0000-4000-8000-000000000002"}}

REFUSED = [
    pytest.param("backoff_limit", 3, "must be 0.*max_failures", id="backoff_limit"),
    pytest.param(
        "job_watch_timeout_seconds", 60, "has no effect.*max_duration", id="job_watch_timeout"
    ),
    pytest.param(
        "pod_watch_timeout_seconds", 600, "has no effect.*kubernetes.pending_timeout",
        id="pod_watch_timeout",
    ),
]  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("name", "value", "want"), REFUSED)
def test_a_variable_without_effect_is_refused(name, value, want, source):
    with pytest.raises(InvalidInput, match=f"{name} {want}"):
        read(*source.of({name: value}))


@pytest.mark.parametrize("name", [field.name for field in NOT_OFFERED])
def test_a_variable_that_is_not_offered_is_absent_and_its_old_default_asks_for_nothing(name):
    assert name not in OURS["variables"]["properties"]
    assert f"{{{{ {name} }}}}" not in str(OURS["job_configuration"])
    before = KubernetesWorker.get_default_base_job_template()
    assert name in before["variables"]["properties"]
    read(*Source("deployment").of({name: FIELDS[name].default}))


@pytest.mark.parametrize("where", ["run", "deployment"])
def test_a_run_does_not_choose_its_cluster(where):
    template, deployment, run = Source(where).of({"cluster_config": OTHER})
    template["variables"]["properties"]["cluster_config"]["default"] = CLUSTER
    with pytest.raises(
        InvalidInput, match=r"cluster_config can only be set for the pool.*other cluster"
    ) as caught:
        read(template, deployment, run)
    assert "block_document_id" not in str(caught.value)
    same = Source(where).of({"cluster_config": CLUSTER})
    read(template, *same[1:])


def test_the_cluster_of_the_pool_is_every_runs():
    read(*Source("pool").of({"cluster_config": CLUSTER}))


@pytest.mark.parametrize(
    ("variables", "want"),
    [
        pytest.param(
            {"memory_limit": "64"},
            "memory_limit is too small.*1Mi to .*a number without a unit is in bytes",
            id="a unit is missing",
        ),
        pytest.param({"memory_limit": "64GB"}, "memory_limit is not a quantity", id="of disks"),
        pytest.param({"memory_request": "1Ei"}, "memory_request is too large", id="an exbibyte"),
        pytest.param({"cpu_request": "0"}, "cpu_request is too small", id="no CPU"),
        pytest.param({"cpu_limit": "-1"}, "cpu_limit is too small", id="less than none"),
        pytest.param({"cpu_limit": True}, "cpu_limit is not a quantity", id="a truth"),
        pytest.param(
            {"cpu_limit": "2", "cpu_request": "4"},
            r"cpu_limit must not be lower than the request \(got '2'\)\. Allowed: 4 or more",
            id="CPU limit below the request",
        ),
        pytest.param(
            {"memory_limit": "8Gi", "memory_gib_per_gpu": 8, "gpu_count": 2},
            "memory_limit must not be lower than the request .*Allowed: 16Gi or more",
            id="memory limit below what the GPUs bring",
        ),
        pytest.param(
            {"cpu_request": "4", "cpu_per_gpu": 2},
            "cpu_request cannot be combined with cpu_per_gpu",
            id="CPU twice",
        ),
        pytest.param(
            {"memory_request": "4Gi", "memory_gib_per_gpu": 2},
            "memory_request cannot be combined with memory_gib_per_gpu",
            id="memory twice",
        ),
        pytest.param(
            {"memory_limit": "4Gi", "shm_size": "4Gi"}, "shm_size uses all of the memory",
            id="all shared"
        ),
        pytest.param(
            {"finished_job_ttl": 0},
            "finished_job_ttl is too small .*60 to 315,360,000 s",
            id="gone at once",
        ),
        pytest.param(
            {"finished_job_ttl": 2**31}, "finished_job_ttl is too large", id="far too long"
        ),
        pytest.param({"stream_output": "no"}, "stream_output is not true or false", id="a word"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(variables, want):
    with pytest.raises(InvalidInput, match=want):
        read(*Source("run").of(variables))


@pytest.mark.parametrize(
    ("variables", "want"),
    [
        pytest.param(
            {"framework": "ray", "finished_job_ttl": 3600}, "finished_job_ttl is not for framework",
            id="an object that is no Job",
        ),
        pytest.param(
            {"framework": "spark", "memory_request": "4Gi", "memory_limit": "8Gi"},
            "memory_limit must be equal to memory_request",
            id="Spark has one amount",
        ),
    ],
)  # fmt: skip
def test_what_an_operator_cannot_do_is_said(variables, want):
    with pytest.raises(InvalidInput, match=want):
        parse_pod_request({**variables, "container_command": "app.py"})


def test_null_takes_back_what_the_pool_says():
    template, deployment, run = Source("pool").of({"cpu_request": "4"})
    run.job_variables = {"cpu_request": None, "cpu_per_gpu": 2, "gpu_count": 1}
    assert read(template, deployment, run).workload.shape.cpu_milli == 2_000


def test_a_pool_of_a_version_before_keeps_working():
    """Its template has prefect-kubernetes' own variables with their defaults."""
    before = KubernetesWorker.get_default_base_job_template()
    _, deployment, run = Source("run").of({"memory_limit": "64Gi", "gpu_count": 1})
    assert read(before, deployment, run).workload.shape.memory_mib == 64 * 1024


def test_a_pool_of_a_version_before_loses_what_has_no_effect():
    before = KubernetesWorker.get_default_base_job_template()
    kept = copy.deepcopy(before)
    template, removed = without_fields_not_offered(before)
    assert removed == [field.name for field in NOT_OFFERED]
    assert before == kept
    assert template["job_configuration"]["job_manifest"]["spec"]["backoffLimit"] == 0
    assert without_fields_not_offered(template) == (template, [])


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(
            lambda t: t["variables"]["properties"]["backoff_limit"].update(default=3), id="default"
        ),
        pytest.param(
            lambda t: t["job_configuration"]["job_manifest"]["metadata"].update(
                annotations={"retries": "{{ backoff_limit }} times"}
            ),
            id="a use of one's own",
        ),
    ],
)
def test_what_a_user_edited_stays(edit):
    template = KubernetesWorker.get_default_base_job_template()
    edit(template)
    found, removed = without_fields_not_offered(template)
    assert "backoff_limit" not in removed
    placeholder = found["job_configuration"]["job_manifest"]["spec"]["backoffLimit"]
    assert placeholder == "{{ backoff_limit }}"


def test_every_variable_of_prefect_kubernetes_is_in_the_table():
    """A new version of prefect-kubernetes with another variable fails here: decide what it does."""
    template = KubernetesWorker.get_default_base_job_template()["variables"]["properties"]
    assert set(FIELDS) == set(KubernetesWorkerVariables.model_fields) == set(template)
    defaults = {name: schema.get("default") for name, schema in template.items()}
    assert {name: field.default for name, field in FIELDS.items()} == {
        name: default if default is not None or FIELDS[name].default is None else {}
        for name, default in defaults.items()
    }
    of_configuration = set(KubernetesWorkerJobConfiguration.model_fields) - {"job_manifest"}
    assert of_configuration <= set(FIELDS)


def test_every_row_of_the_table_is_tried():
    elsewhere = {"env", "stream_output"}
    mapped = {f.name for f in PREFECT_FIELDS if f.treatment is Treatment.MAPPED}
    assert mapped == {*MAPPED, *elsewhere}
    assert {f.name for f in NOT_OFFERED} == {param.values[0] for param in REFUSED}
    assert {f.name for f in PREFECT_FIELDS} == {
        *mapped, "cluster_config", *(f.name for f in NOT_OFFERED)
    }  # fmt: skip


def test_the_form_offers_what_takes_effect():
    offered = {f.name for f in PREFECT_FIELDS} - {f.name for f in NOT_OFFERED}
    assert offered <= set(OURS["variables"]["properties"])
    assert set(known_names(GpuKubernetesVariables)) >= set(OURS["variables"]["properties"])
