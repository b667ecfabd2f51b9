"""A worker loses its lease while it creates an attempt, and the request is heard too late.

Another worker gives the attempt up meanwhile. From then on nothing of it may run, whenever the
request of the first one arrives: before any request of the second worker, between two of them, or
after the last.
"""

import itertools
from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace

import anyio
import pytest

from gpu_core.adapters.kubernetes import KubernetesError
from gpu_core.decisions.attempts.phase import AttemptPhase
from gpu_core.decisions.kubernetes.manifests.names import ATTEMPT_ID_LABEL, ROLE_LABEL
from gpu_core.decisions.kubernetes.manifests.tombstone import (
    TOMBSTONE,
    is_tombstone,
    tombstone_custom_job,
    tombstone_jobs,
)
from gpu_core.decisions.kubernetes.variables.frameworks import FRAMEWORKS
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.model.workload import Shape, Workload
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from gpu_core.decisions.requests.runs.run_context import RunContext
from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.testing.builders.attempts import NOON, make_attempt, make_run
from gpu_core.testing.builders.workloads import make_policy
from gpu_core.worker import GpuKubernetesWorker
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.infrastructure import NotStarted
from gpu_core.worker.kubernetes.cluster.cluster_cache import kept_job
from gpu_core.worker.kubernetes.infrastructure import KubernetesInfrastructure
from gpu_core.worker.kubernetes.jobs.operator_jobs import kept_custom_job
from gpu_core.worker.kubernetes.variables import GpuKubernetesJobConfiguration
from gpu_core.worker.prefect.starts_first import StartsFirst
from tests.gpu_core.worker.kubernetes.of_cluster import LIMITS
from tests.support.kubernetes_schemas import schema_errors
from tests.support.skipped_waits import run_without_waits

NEVER = 1_000
TEMPLATE = {"spec": {"template": {"spec": {"containers": [{"name": "prefect-job", "image": "i"}]}}}}
CONFIGURATION = GpuKubernetesJobConfiguration.model_construct(job_manifest=TEMPLATE)


class Cluster:
    """Objects by their path, with the names' uniqueness of an API server.

    Args:
        held: The creation of the first worker that is kept on its way, by number.
        heard_at: The request of the second worker before which it is heard.
        refuses: A status with which the second worker's creations are refused; None: none.
        drops_suspend: The operators' kinds do not know that field.
    """

    def __init__(self, held=0, heard_at=NEVER, refuses=None, drops_suspend=False):
        self.objects = {}
        self.held, self.heard_at = held, heard_at
        self.refuses, self.drops_suspend = refuses, drops_suspend
        self.numbers, self.uids = itertools.count(), itertools.count()
        self.is_on_its_way, self.is_due, self.is_heard = (anyio.Event() for _ in range(3))
        self.asked = 0
        self.creations = 0
        self.on_create = lambda path, item: None
        self.on_delete = lambda path, item: None

    async def hear(self):
        """The request that was on its way arrives."""
        self.is_due.set()
        await self.is_heard.wait()

    def create(self, path, body):
        at = f"{path}/{body['metadata']['name']}"
        if at in self.objects:
            raise KubernetesError(409, "AlreadyExists", "it is there")
        body["metadata"] |= {
            "uid": f"uid-{next(self.uids)}",
            "namespace": path.split("/")[-2],
            "creationTimestamp": "2026-03-04T12:00:00Z",
        }
        if self.drops_suspend:
            body["spec"].pop("suspend", None)
        self.objects[at] = body
        self.on_create(path, body)
        return deepcopy(body)

    def delete(self, path):
        item = self.objects.pop(path, None)
        if item is not None:
            self.on_delete(path, item)
        return item is not None

    def get(self, path, query=None):
        if query is None and path not in self.objects:
            raise KubernetesError(404, "NotFound", "it is not there")
        if query is None:
            return deepcopy(self.objects[path])
        label, _, value = query["labelSelector"].partition("=")
        items = [
            item
            for at, item in self.objects.items()
            if at.split("/")[-2] == path.split("/")[-1]
            and item["metadata"]["labels"].get(label) == value
        ]
        return {"items": items}

    @property
    def living(self):
        """What could run, or is owned by something that is there."""
        uids = {item["metadata"]["uid"] for item in self.objects.values()}
        return [
            at
            for at, item in self.objects.items()
            if not is_tombstone(item)
            and all(owner["uid"] in uids for owner in item["metadata"].get("ownerReferences", ()))
        ]


class Losing:
    """The API as the worker has it that loses its lease: one creation stays on its way."""

    def __init__(self, cluster):
        self.cluster = cluster

    async def create(self, path, body):
        cluster = self.cluster
        number, cluster.creations = cluster.creations, cluster.creations + 1
        if number != cluster.held:
            return cluster.create(path, body)
        cluster.is_on_its_way.set()
        await cluster.is_due.wait()
        try:
            return cluster.create(path, body)
        finally:
            cluster.is_heard.set()

    async def find(self, path):
        return self.cluster.objects.get(path)


class Acting:
    """The API as the worker has it that acts now."""

    def __init__(self, cluster):
        self.cluster = cluster

    async def _ask(self):
        if self.cluster.asked == self.cluster.heard_at:
            await self.cluster.hear()
        self.cluster.asked += 1

    async def create(self, path, body):
        await self._ask()
        if self.cluster.refuses is not None:
            raise KubernetesError(self.cluster.refuses, "Forbidden", "no")
        return self.cluster.create(path, body)

    async def delete(self, path, **_options):
        await self._ask()
        return self.cluster.delete(path)

    async def get(self, path, query=None):
        await self._ask()
        return self.cluster.get(path, query)

    async def find(self, path):
        await self._ask()
        return deepcopy(self.cluster.objects.get(path))


def infrastructure_of(api, may_act=lambda: True, template=dict, client=None):
    return KubernetesInfrastructure(
        api,
        output_api=api,
        pool="gpu",
        namespace="ml",
        client=client or SimpleNamespace(),
        wake=lambda: None,
        may_act=may_act,
        starts=StartsFirst(),
        prefect_secrets={},
        template=template,
    )


def attempt_of(case):
    """The attempt, as the worker that opened it and the one that took it over have it."""
    nodes = case.get("nodes", 1)
    shares = tuple(NodeShare(node=f"n{n}", gpu_ids=("0",)) for n in range(nodes))
    framework = case.get("framework")
    variables = {"container_command": "train.py"} if framework or nodes > 1 else {}
    if framework:
        variables["framework"] = framework
    return AttemptState(
        attempt=make_attempt(attempt_id="a", shares=shares, started_at=None),
        record=replace(make_run(), flow_name="run-container" if variables else "train"),
        workload=Workload(
            workload_id="run-1",
            name="run",
            priority=1,
            submitted_at=NOON,
            shape=Shape(nodes=nodes),
        ),
        request=GpuRequest(),
        limits=LIMITS,
        run_dir=None,
        variables=variables,
    )


CASES = [
    pytest.param({}, 1, id="one Job"),
    pytest.param({"nodes": 2}, 2, id="a gang in one Job, and its Service"),
    pytest.param({"nodes": 2, "version": "1.25"}, 3, id="a gang of two Jobs, and its Service"),
    pytest.param({"framework": "ray"}, 1, id="a RayJob"),
    pytest.param({"framework": "kubeflow"}, 1, id="a TrainJob"),
    pytest.param({"framework": "spark"}, 1, id="a SparkApplication"),
]


def let_watch_report(cluster, infrastructure, framework):
    """The second worker's watches report all objects of attempts at once."""
    view = infrastructure._view

    def emit(path, item, is_there):
        if ATTEMPT_ID_LABEL not in item["metadata"]["labels"]:
            return
        if path.split("/")[-1] == "jobs" or "/jobs/" in path:
            kept = kept_job(item)
            view._job_changed(*((None, kept) if is_there else (kept, None)))
        elif framework is not None and FRAMEWORKS[framework].plural in path:
            kept = kept_custom_job(FRAMEWORKS[framework], item)
            view.custom_jobs._changed(*((None, kept) if is_there else (kept, None)))

    cluster.on_create = lambda path, item: emit(path, item, True)
    cluster.on_delete = lambda path, item: emit(path, item, False)


async def give_up_while_it_is_created(cluster, case, *, is_reported):
    """The first worker creates, the second gives the attempt up. Returns how often it tried."""
    policy = make_policy(kubernetes={"version": case.get("version", "1.34")})
    acting = SimpleNamespace(first=True)

    async def create(api):
        infrastructure = infrastructure_of(api, lambda: acting.first)
        context = RunContext(flow_run_id="run-1", attempt=1, attempt_id="a")
        try:
            await infrastructure.start(attempt_of(case), CONFIGURATION, context, {}, policy)
        except NotStarted:
            pass
        finally:
            cluster.is_heard.set()

    async with anyio.create_task_group() as tasks:
        infrastructure = infrastructure_of(Acting(cluster))
        infrastructure._policy = policy.kubernetes
        if is_reported:
            let_watch_report(cluster, infrastructure, case.get("framework"))
        tasks.start_soon(create, Losing(cluster))
        await cluster.is_on_its_way.wait()
        acting.first = False
        tries = 0
        given_up = attempt_of(case)
        while not await infrastructure.kill(given_up):
            tries += 1
            assert tries < 10, "it is never given up"
        if not cluster.is_due.is_set():
            await cluster.hear()
    return tries


@pytest.mark.parametrize("is_reported", [True, False], ids=["the watch tells", "the watch is cut"])
@pytest.mark.parametrize(("case", "creations"), CASES)
def test_what_is_created_too_late_never_runs(case, creations, is_reported):
    for held in range(creations):
        for heard_at in (*range(8), NEVER):
            cluster = Cluster(held=held, heard_at=heard_at)
            run_without_waits(
                lambda c=cluster: give_up_while_it_is_created(c, case, is_reported=is_reported)
            )
            assert cluster.living == [], f"creation {held}, heard before request {heard_at}"
            assert cluster.creations <= held + 1, "it went on without its lease"


def test_a_run_that_calls_its_job_a_tombstone_does_not_run_beside_its_next_attempt(monkeypatch):
    forged = {"metadata": {"labels": {ROLE_LABEL: TOMBSTONE}}, **TEMPLATE}
    configuration = GpuKubernetesJobConfiguration.model_construct(job_manifest=forged)
    monkeypatch.setitem(globals(), "CONFIGURATION", configuration)
    for heard_at in range(8):
        cluster = Cluster(heard_at=heard_at)
        run_without_waits(lambda c=cluster: give_up_while_it_is_created(c, {}, is_reported=False))
        labels = [item["metadata"]["labels"] for item in cluster.objects.values()]
        assert not any(ATTEMPT_ID_LABEL in each for each in labels), f"before request {heard_at}"


def test_what_was_answered_needs_no_tombstone():
    """Each costs a request and stays for a day: only what may still be on its way gets one."""

    async def scenario():
        cluster = Cluster()
        api = Acting(cluster)
        infrastructure = infrastructure_of(api)
        answered = attempt_of({})
        unclaimed = replace(attempt_of({}), phase_at_first=AttemptPhase.ADMITTED)
        answered.attempt = replace(answered.attempt, started_at=NOON)
        for attempt in (answered, unclaimed):
            assert await infrastructure.kill(attempt)
        assert cluster.objects == {}

    anyio.run(scenario)


def test_a_cluster_that_refuses_tombstones_keeps_no_run_from_going_on(caplog):
    async def scenario():
        cluster = Cluster(refuses=403)
        api = Acting(cluster)
        assert await infrastructure_of(api).kill(attempt_of({}))

    anyio.run(scenario)
    assert "reserve object names for flow run 'name-of-run-1': no (Forbidden)" in caplog.text


def test_an_operator_that_cannot_suspend_does_not_run_the_tombstone(caplog):
    async def scenario():
        cluster = Cluster(drops_suspend=True)
        api = Acting(cluster)
        assert await infrastructure_of(api).kill(attempt_of({"framework": "spark"}))
        assert [at.split("/")[-2] for at in cluster.objects] == ["jobs"]

    anyio.run(scenario)
    assert "cannot be suspended" in caplog.text


def template_in(metadata, namespace="{{ namespace }}"):
    """A pool's template whose Job has this metadata."""
    template = deepcopy(GpuKubernetesWorker.get_default_base_job_template())
    configuration = template["job_configuration"]
    configuration["job_manifest"]["metadata"] = metadata
    configuration["namespace"] = namespace
    template["variables"]["properties"]["team_space"] = {"type": "string"}
    return template


VARIABLE = "{{ prefect.variables.space }}"


@pytest.mark.parametrize(
    ("template", "variables", "want"),
    [
        pytest.param(
            template_in({"namespace": "{{ namespace }}"}),
            {"namespace": "research"},
            "research",
            id="the job variable of prefect-kubernetes",
        ),
        pytest.param(
            template_in({"namespace": "{{ team_space }}"}),
            {"team_space": "research", "namespace": "elsewhere"},
            "research",
            id="a variable of the template's own",
        ),
        pytest.param(
            template_in({"namespace": "team-{{ team_space }}"}),
            {"team_space": "a"},
            "team-a",
            id="a part of a name",
        ),
        pytest.param(
            template_in({}, "{{ team_space }}"),
            {"team_space": "research"},
            "research",
            id="outside of the Job",
        ),
        pytest.param(
            template_in({"namespace": "fixed"}),
            {"namespace": "research"},
            "fixed",
            id="the template's",
        ),
        pytest.param(
            template_in({"namespace": "{{ team_space }}"}),
            {"team_space": None},
            "ml",
            id="none, which is the pool's",
        ),
        pytest.param(
            template_in({"namespace": VARIABLE}), {}, "research", id="a variable of Prefect"
        ),
        pytest.param(
            template_in({"namespace": "{{ team_space }}"}),
            {"team_space": VARIABLE},
            "research",
            id="a variable of Prefect in the run's variable",
        ),
    ],
)
def test_a_tombstone_is_in_the_namespace_of_its_run(template, variables, want):
    """A late creation is refused only where the name is taken in its own namespace."""

    async def read_variable_by_name(name):
        return SimpleNamespace(value={"space": "research"}[name])

    client = SimpleNamespace(read_variable_by_name=read_variable_by_name)

    async def scenario():
        cluster = Cluster()
        attempt = attempt_of({})
        attempt.variables = variables
        infrastructure = infrastructure_of(
            Acting(cluster), template=lambda: template, client=client
        )
        assert await infrastructure.kill(attempt)
        assert list(cluster.objects) == [f"/apis/batch/v1/namespaces/{want}/jobs/gpu-a"]

    anyio.run(scenario)


def test_a_tombstone_is_valid_and_makes_no_pod():
    policy = KubernetesPolicy(kueue_queue="queue")
    jobs = list(tombstone_jobs("a", "run-1", "gpu", 2, policy))
    assert [job["metadata"]["name"] for job in jobs] == ["gpu-a", "gpu-a-0", "gpu-a-1"]
    for job in jobs:
        assert schema_errors(job) == []
        assert job["spec"]["completions"] == job["spec"]["parallelism"] == 0
        assert ATTEMPT_ID_LABEL not in job["metadata"]["labels"]


@pytest.mark.parametrize("framework", sorted(FRAMEWORKS))
def test_the_tombstone_of_an_operators_object_is_suspended(framework):
    policy = KubernetesPolicy(kueue_queue="queue")
    item = tombstone_custom_job("a", "run-1", "gpu", framework, policy)
    assert item["spec"]["suspend"] is True
    assert item["metadata"]["name"] == "gpu-a"
    # Kueue would lift the suspension of what has its queue's label.
    assert item["metadata"]["labels"].keys() == {
        "prefect-gpu.dev/role",
        "prefect-gpu.dev/flow-run-id",
        "prefect-gpu.dev/pool",
    }
