"""What the worker does about an attempt that its watches have not reported."""

import logging
from datetime import datetime
from types import SimpleNamespace

import anyio
import pytest
from aiohttp import web
from prefect.settings import PREFECT_LOGGING_TO_API_ENABLED, temporary_settings

from gpu_core.adapters.kubernetes import KubernetesError
from gpu_core.decisions.checkpoints.trust import SIGNING_KEY_VARIABLE
from gpu_core.decisions.kubernetes.manifests.names import ATTEMPT_ID_LABEL
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.policy.kubernetes import SecretReference
from gpu_core.decisions.policy.kubernetes_version import capabilities_of
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.requests.runs.run_context import RunContext
from gpu_core.testing.builders.attempts import NOON
from gpu_core.testing.builders.workloads import make_policy, with_shape
from gpu_core.worker import GpuKubernetesWorker
from gpu_core.worker.infrastructure import NotStarted, Postponed, Refused, Unavailable
from gpu_core.worker.kubernetes.cluster.cluster_cache import kept_node
from gpu_core.worker.kubernetes.jobs.attempt_request import is_container_job
from gpu_core.worker.kubernetes.jobs.operator_jobs import OperatorJobs
from gpu_core.worker.kubernetes.variables import GpuKubernetesJobConfiguration
from tests.gpu_core.adapters.kubernetes.api_server import serving
from tests.gpu_core.worker.kubernetes.objects import NOW, make_job, make_node, make_pod, moment
from tests.gpu_core.worker.kubernetes.of_cluster import of_cluster, of_rank, running


class Api:
    """Has these Jobs and pods, whatever the watches said, and deletes what it is asked to."""

    def __init__(self, jobs, pods):
        self.lists = {"/apis/batch/v1/jobs": jobs, "/api/v1/pods": pods}
        self.deleted = []

    async def handle(self, request):
        if request.method == "DELETE":
            self.deleted.append(request.path)
            for items in self.lists.values():
                items.clear()
            return web.json_response({})
        return web.json_response({"items": self.lists[request.path]})


@pytest.mark.parametrize(
    ("jobs", "pods", "want_gone", "want_deleted"),
    [
        pytest.param([], [], True, [], id="it was never heard"),
        pytest.param(
            [make_job()], [], False, ["/apis/batch/v1/namespaces/ml/jobs/gpu-a"], id="a Job"
        ),
        pytest.param(
            [], [make_pod()], False, ["/api/v1/namespaces/ml/pods/pod-1"], id="a pod that runs"
        ),
        pytest.param([make_job(finished="Failed")], [], True, [], id="a Job that is over"),
    ],
)
def test_a_run_does_not_start_again_next_to_what_no_watch_has_seen(
    jobs, pods, want_gone, want_deleted
):
    async def scenario():
        api = Api(list(jobs), list(pods))
        async with serving(api) as client:
            infrastructure = of_cluster(client)
            assert await infrastructure.kill(running()) is want_gone
            assert api.deleted == want_deleted
            assert await infrastructure.kill(running()) is True

    anyio.run(scenario)


class Answering:
    """Answers every creation like this."""

    def __init__(self, status, message):
        self.status = status
        self.body = {"kind": "Status", "reason": "Some", "message": message}

    async def handle(self, _request):
        return web.json_response(self.body, status=self.status)


TEMPLATE = {"spec": {"template": {"spec": {"containers": [{"name": "prefect-job"}]}}}}


@pytest.mark.parametrize(
    ("status", "message", "want", "want_time_to_show"),
    [
        pytest.param(403, 'cannot create resource "jobs"', Refused, False, id="no right"),
        pytest.param(422, "env[3].name: Invalid value", Refused, False, id="a value"),
        pytest.param(400, 'admission webhook "w" denied the request', Refused, False, id="a rule"),
        pytest.param(403, "forbidden: exceeded quota: q", Postponed, False, id="a quota"),
        pytest.param(401, "Unauthorized", NotStarted, True, id="credentials are renewed"),
        pytest.param(500, "failed calling webhook", NotStarted, True, id="a rule that is ill"),
        pytest.param(429, "too many requests", NotStarted, True, id="busy"),
    ],
)
def test_what_a_refusal_of_its_job_means_for_a_run(status, message, want, want_time_to_show):
    """What stays refused is tried once; what may pass is tried again. No answer is no refusal."""
    configuration = GpuKubernetesJobConfiguration.model_construct(job_manifest=TEMPLATE)

    async def scenario():
        async with serving(Answering(status, message)) as client:
            infrastructure, attempt = of_cluster(client), running()
            context = RunContext(flow_run_id="run-1", attempt=1, attempt_id="a")
            with pytest.raises(want):
                await infrastructure.start(attempt, configuration, context, {}, Policy(version=1))
            assert infrastructure.lives(attempt) is want_time_to_show

    anyio.run(scenario)


@pytest.mark.parametrize("is_listed", [True, False], ids=["no claim is listed", "no list"])
def test_the_claims_of_a_run_are_judged_when_it_starts(is_listed, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("prefect"), "propagate", True)
    configuration = GpuKubernetesJobConfiguration.model_construct(job_manifest=TEMPLATE)
    policy = make_policy(permissions={"default": {"claims": []} if is_listed else {}})

    async def scenario():
        async with serving(Answering(429, "too many requests")) as client:
            attempt = running()
            attempt.variables = {"volumes": [{"claim": "wages", "mount_path": "/w"}]}
            context = RunContext(flow_run_id="run-1", attempt=1, attempt_id="a")
            with pytest.raises(Refused if is_listed else NotStarted) as raised:
                await of_cluster(client).start(attempt, configuration, context, {}, policy)
            return str(raised.value)

    with temporary_settings({PREFECT_LOGGING_TO_API_ENABLED: False}):
        why = anyio.run(scenario)
    assert ("is not permitted to use PersistentVolumeClaim 'wages'" in why) is is_listed
    reported = "PersistentVolumeClaim 'wages', which is not listed in the policy"
    assert (reported in caplog.text) is not is_listed


class Noting:
    """Has no room for any Job, and notes what they would have been."""

    def __init__(self):
        self.bodies = []

    async def handle(self, request):
        self.bodies.append(await request.json())
        message = {"kind": "Status", "reason": "Some", "message": "too many requests"}
        return web.json_response(message, status=429)


def test_a_flow_gets_prefects_key_from_the_secret_of_the_workers_settings():
    configuration = GpuKubernetesJobConfiguration.model_construct(job_manifest=TEMPLATE)

    async def scenario():
        api = Noting()
        async with serving(api) as client:
            key = SecretReference(name="prefect", key="key")
            infrastructure = of_cluster(client, {"PREFECT_API_KEY": key})
            context = RunContext(flow_run_id="run-1", attempt=1, attempt_id="a")
            with pytest.raises(NotStarted):
                await infrastructure.start(running(), configuration, context, {}, Policy(version=1))
        (container,) = api.bodies[0]["spec"]["template"]["spec"]["containers"]
        source = {"secretKeyRef": {"name": "prefect", "key": "key"}}
        assert {"name": "PREFECT_API_KEY", "valueFrom": source} in container["env"]

    anyio.run(scenario)


def test_a_job_whose_pods_are_still_to_be_made_is_taken_away():
    """Of a gang the second Job was refused; the first would run on GPUs that others get."""
    job = make_job()
    job["metadata"]["labels"] = {ATTEMPT_ID_LABEL: "a"}

    class Reporting(Api):
        """Its watch reports at once."""

        async def handle(self, request):
            if request.method == "DELETE":
                self.view._job_changed(job, None)
            return await super().handle(request)

    async def scenario():
        api = Reporting([job], [])
        async with serving(api) as client:
            infrastructure = of_cluster(client)
            api.view = infrastructure._view
            api.view._job_changed(None, job)
            assert await infrastructure.kill(running(attempt_id="a"))
            assert api.deleted == ["/apis/batch/v1/namespaces/ml/jobs/gpu-a"]

    anyio.run(scenario)


def test_a_run_does_not_start_again_beside_the_pod_that_replaces_a_deleted_one():
    """Before 1.26 its Job makes it at once; the deleted one may have ended before it is seen."""
    job = make_job()
    job["metadata"]["labels"] = {ATTEMPT_ID_LABEL: "a"}
    evicted = make_pod("Failed", uid="evicted", deletionTimestamp=moment(1))
    evicted["metadata"]["labels"] = {ATTEMPT_ID_LABEL: "a"}

    class Replacing(Api):
        """No watch has reported the second pod."""

        async def handle(self, request):
            if request.method != "DELETE":
                return await super().handle(request)
            self.deleted.append(request.path.rpartition("/")[2])
            for items in self.lists.values():
                items[:] = [each for each in items if each["metadata"]["name"] != self.deleted[-1]]
            if self.deleted[-1] == "gpu-a":
                self.view._job_changed(job, None)
            return web.json_response({})

    async def scenario():
        api = Replacing([job], [evicted, make_pod(uid="in-its-place")])
        async with serving(api) as client:
            infrastructure = of_cluster(client)
            api.view = infrastructure._view
            api.view._job_changed(None, job)
            api.view._pod_changed(None, evicted)
            attempt = running(attempt_id="a", started_at=NOON)
            assert not await infrastructure.kill(attempt)
            assert api.deleted == ["gpu-a", "in-its-place"]
            assert await infrastructure.kill(attempt)

    anyio.run(scenario)


@pytest.mark.parametrize(
    ("finished", "pods"),
    [
        pytest.param("Complete", [], id="a Job that is over"),
        pytest.param(None, [make_pod("Succeeded")], id="its pod ended a moment ago"),
    ],
)
def test_a_job_that_makes_no_more_pods_is_kept(finished, pods):
    """With it its output stays there for a while."""
    job = make_job(finished=finished)
    job["metadata"]["labels"] = {ATTEMPT_ID_LABEL: "a"}

    async def scenario():
        api = Api([job], pods)
        async with serving(api) as client:
            infrastructure = of_cluster(client)
            infrastructure._view._job_changed(None, job)
            for pod in pods:
                pod["metadata"]["labels"] = {ATTEMPT_ID_LABEL: "a"}
                infrastructure._view._pod_changed(None, pod)
            assert await infrastructure.kill(running(attempt_id="a"))
            assert api.deleted == []

    anyio.run(scenario)


@pytest.mark.parametrize(
    ("nodes", "started_at", "want"),
    [
        pytest.param(1, None, True, id="one Job is all there is"),
        pytest.param(2, NOON, True, id="all were made"),
        pytest.param(2, None, False, id="some may be missing"),
    ],
)
def test_what_a_killed_worker_made_of_a_gang_is_not_adopted(nodes, started_at, want):
    shares = tuple(NodeShare(node=f"n{number}", gpu_ids=("0",)) for number in range(nodes))
    attempt = running(attempt_id="a", shares=shares, started_at=started_at)
    job = make_job()
    job["metadata"]["labels"] = {ATTEMPT_ID_LABEL: "a"}
    infrastructure = of_cluster(SimpleNamespace())
    infrastructure._view._job_changed(None, job)
    assert bool(anyio.run(infrastructure.find, [attempt.attempt])) is want
    assert infrastructure.lives(attempt) is want


def test_the_object_of_an_operator_is_adopted_as_it_is_there_as_a_whole():
    """One request creates it, so that a worker which is killed then leaves nothing half made."""
    shares = tuple(NodeShare(node=f"n{number}", gpu_ids=("0",)) for number in range(2))
    attempt = running(attempt_id="a", shares=shares, started_at=None)
    item = {
        "kind": "RayJob",
        "metadata": {
            "name": "gpu-a",
            "namespace": "ml",
            "labels": {ATTEMPT_ID_LABEL: "a"},
            "creationTimestamp": moment(5),
        },
        "status": {},
    }
    infrastructure = of_cluster(SimpleNamespace())
    infrastructure._view.custom_jobs._changed(None, item)
    found = anyio.run(infrastructure.find, [attempt.attempt])
    assert found["a"].infrastructure == "ml:gpu-a"
    assert infrastructure.lives(attempt)


def test_requests_that_meet_are_no_refusal():
    """Two starts may change the usage of a ResourceQuota at a time."""
    configuration = GpuKubernetesJobConfiguration.model_construct(job_manifest=TEMPLATE)
    answering = Answering(409, 'Operation cannot be fulfilled on resourcequotas "q"')
    answering.body["reason"] = "Conflict"

    async def scenario():
        async with serving(answering) as client:
            context = RunContext(flow_run_id="run-1", attempt=1, attempt_id="a")
            with pytest.raises(NotStarted):
                await of_cluster(client).start(
                    running(), configuration, context, {}, Policy(version=1)
                )

    anyio.run(scenario)


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param([of_rank(0, "Running")], True, id="its flow runs, and sees it"),
        pytest.param([of_rank(0, "Pending")], False, id="its image cannot be pulled"),
        pytest.param([], False, id="its pod is still to be made"),
    ],
)
def test_a_cancelled_flow_is_waited_for_only_where_its_pod_has_begun(pods, want):
    """Otherwise its GPUs are free as soon as Kubernetes has deleted what waits."""
    infrastructure, attempt = of_cluster(SimpleNamespace()), running(attempt_id="a")
    for pod in pods:
        infrastructure._view._pod_changed(None, pod)
    assert infrastructure.sees_its_cancellation(attempt) is want


def test_a_cancelled_flow_whose_gang_is_incomplete_is_not_waited_for():
    """Its first node waits for the others, and Prefect does not run there yet."""
    infrastructure, attempt = of_cluster(SimpleNamespace()), running(attempt_id="a")
    attempt.workload = with_shape(attempt.workload, nodes=2)
    infrastructure._view._pod_changed(None, of_rank(0, "Running"))
    assert not infrastructure.sees_its_cancellation(attempt)
    infrastructure._view._pod_changed(None, of_rank(1, "Pending"))
    assert infrastructure.sees_its_cancellation(attempt)


@pytest.mark.parametrize(
    ("ages_s", "awaited", "want_age_s"),
    [
        pytest.param([3600], (), 3600, id="its node's age"),
        pytest.param([3600, 60], (), 60, id="of a gang the youngest node's"),
        pytest.param([3600], ("new/big/0",), None, id="a node is still to come"),
    ],
)
def test_a_run_reads_since_when_its_nodes_are_up(ages_s, awaited, want_age_s):
    """Young spot capacity dies sooner: its runs save more often."""
    names = [f"n{number}" for number in range(len(ages_s))]
    shares = tuple(NodeShare(node=name, gpu_ids=("0",)) for name in (*names, *awaited))
    infrastructure = of_cluster(SimpleNamespace())
    for name, age_s in zip(names, ages_s, strict=True):
        node = make_node(name)
        node["metadata"]["creationTimestamp"] = moment(age_s)
        infrastructure._view.nodes[name] = kept_node(node)
    context = RunContext(flow_run_id="run-1", attempt=1, attempt_id="a")
    found = anyio.run(infrastructure.context, running(shares=shares), context)
    want = None if want_age_s is None else datetime.fromisoformat(moment(want_age_s))
    assert found.capacity_since == want
    assert found.reports_to_prefect


def fitted(variables, **parts):
    """The run as it is planned with where each shared GPU has five places."""
    policy = make_policy(kubernetes={"shares_per_gpu": 5})
    workload = with_shape(running().workload, **parts)
    return of_cluster(SimpleNamespace()).fitted(
        workload, variables, policy, "train", has_deployment=True
    )


@pytest.mark.parametrize(
    ("parts", "want_milli"),
    [
        pytest.param({}, 1000, id="a whole GPU"),
        pytest.param({"gpu_share_milli": 200}, 200, id="a place"),
        pytest.param({"gpu_share_milli": 50}, 200, id="less than a place"),
        pytest.param({"gpu_share_milli": 125, "mig_profile": "1g.10gb"}, 125, id="an instance"),
        pytest.param({"gpu_count": 0}, 1000, id="no GPU"),
    ],
)
def test_a_part_of_a_gpu_is_planned_with_as_it_will_be_had(parts, want_milli):
    """One place of a shared GPU at least, and CPU and memory to match."""
    variables = {"cpu_per_gpu": 10.0}
    found = fitted(variables, **parts)
    assert found.shape.gpu_share_milli == want_milli
    if parts.get("gpu_count", 1) and "mig_profile" not in parts:
        assert found.shape.cpu_milli == 10 * want_milli


@pytest.mark.parametrize(
    ("parts", "want"),
    [
        pytest.param({"gpu_share_milli": 201}, "at most 0.2 GPU", id="more than a place"),
        pytest.param({"gpu_share_milli": 100, "gpu_count": 2}, "one part", id="two places"),
    ],
)
def test_what_no_shared_gpu_has_is_refused_at_once(parts, want):
    with pytest.raises(InvalidInput, match=f"^gpu_fraction .*{want}"):
        fitted({}, **parts)


@pytest.mark.parametrize(
    ("command", "want"),
    [
        pytest.param("train.py --fast", True, id="a container that version 0.1 started"),
        pytest.param("uv run prefect flow-run execute", False, id="an engine of one's own"),
    ],
)
def test_an_attempt_of_the_version_before_is_settled_as_what_it_is(command, want):
    attempt = running()
    attempt.variables = {"command": command}
    assert is_container_job(attempt) is want


def test_a_command_that_may_be_the_flows_or_a_containers_is_held():
    assert fitted({"command": "train.py"}).hold.reason == Reason.AMBIGUOUS_COMMAND
    assert fitted({"command": "uv run prefect flow-run execute"}).hold is None
    assert fitted({"container_command": "train.py"}).hold is None


def opened(kind, **resources):
    """A template whose further containers of this kind are a variable of the run's."""
    template = GpuKubernetesWorker.get_default_base_job_template()
    spec = template["job_configuration"]["job_manifest"]["spec"]["template"]["spec"]
    further = "{{ further }}"
    spec[kind] = further if kind == "initContainers" else [spec["containers"][0], further]
    template["variables"]["properties"]["further"] = {}
    container = {"name": "further", "image": "i", "resources": {"limits": resources}}
    return template, {"further": [container] if kind == "initContainers" else container}


@pytest.mark.parametrize(
    ("kind", "gpus", "variables", "want"),
    [
        pytest.param("containers", 1, {}, r"containers\[1\]", id="another container"),
        pytest.param("initContainers", 2, {}, None, id="an init container with as many"),
        pytest.param("initContainers", 3, {}, r"initContainers\[0\]", id="one with more"),
        pytest.param(
            "initContainers",
            1,
            {"framework": "ray", "container_command": "train.py"},
            r"initContainers\[0\]",
            id="Ray's head, which has none",
        ),
        pytest.param(
            "containers", "{{ prefect.variables.gpus }}", {}, None, id="what Prefect resolves later"
        ),
    ],
)
def test_gpus_of_further_containers_are_refused_when_the_run_is_read(
    kind, gpus, variables, want, monkeypatch
):
    monkeypatch.setattr(OperatorJobs, "check", lambda _self, _request: None)
    template, further = opened(kind, **{"nvidia.com/gpu": gpus})
    infrastructure = of_cluster(SimpleNamespace(), template=lambda: template)

    def fit():
        return infrastructure.fitted(
            with_shape(running().workload, gpu_count=2),
            {**variables, **further},
            make_policy(),
            "train",
            has_deployment=True,
        )

    if want is None:
        assert fit().shape.gpu_count == 2
    else:
        with pytest.raises(
            InvalidInput, match=rf"{want}.resources requests GPUs that were not planned"
        ):
            fit()


def test_parts_of_gpus_for_spark_are_refused_at_once(monkeypatch):
    monkeypatch.setattr(OperatorJobs, "check", lambda _self, _request: None)
    with pytest.raises(InvalidInput, match=r"^framework 'spark' requires whole GPUs"):
        fitted({"framework": "spark", "container_command": "train.py"}, gpu_share_milli=200)


@pytest.mark.parametrize("has_secret", [False, True])
def test_a_flow_gets_the_signing_key_from_the_secret_of_the_policy(has_secret):
    """Never in plain words; without a Secret nothing starts, and nothing is charged for it."""
    configuration = GpuKubernetesJobConfiguration.model_construct(job_manifest=TEMPLATE)
    secrets = {SIGNING_KEY_VARIABLE: {"name": "checkpoints", "key": "signing-key"}}
    policy = make_policy(kubernetes={"secrets": secrets if has_secret else {}})
    context = RunContext(flow_run_id="run-1", attempt=1, attempt_id="a", requires_signatures=True)

    async def scenario():
        api = Noting()
        async with serving(api) as client:
            with pytest.raises(NotStarted if has_secret else Unavailable) as raised:
                await of_cluster(client).start(running(), configuration, context, {}, policy)
        return api.bodies, str(raised.value)

    bodies, why = anyio.run(scenario)
    if not has_secret:
        assert "does not specify a Secret with the signing key" in why
        assert bodies == []
        return
    (container,) = bodies[0]["spec"]["template"]["spec"]["containers"]
    source = {"secretKeyRef": {"name": "checkpoints", "key": "signing-key"}}
    assert {"name": SIGNING_KEY_VARIABLE, "valueFrom": source} in container["env"]


class OfVersion:
    """A cluster of this version; None: it does not say."""

    def __init__(self, version):
        self.version = version

    async def get(self, path):
        if path == "/version" and self.version is None:
            raise KubernetesError(403, "Forbidden", "no")
        assert path == "/version", "asked before anything is watched"
        return {"gitVersion": self.version}


@pytest.mark.parametrize(
    ("stated", "server", "want_written_for", "want_unknown"),
    [
        pytest.param("1.34", "v1.34.2-eks-1", "1.34", "", id="as stated"),
        pytest.param("1.34", "v1.28.9", "1.34", "", id="older, and it knows all that is written"),
        pytest.param("1.20", "v1.20.2", "1.20", "", id="both are old"),
        pytest.param("1.20", "v1.34.0", "1.20", "", id="newer"),
        pytest.param("1.34", None, "1.34", "", id="it does not say"),
        pytest.param("1.34", "main", "1.34", "", id="it says something else"),
        pytest.param(
            "1.34", "v1.25.4-gke.1", "v1.25.4-gke.1", "podFailurePolicy",
            id="it would drop what keeps runs from executing twice",
        ),
        pytest.param(
            "1.26", "v1.20.2", "v1.20.2", "completionMode, podFailurePolicy, suspend",
            id="and the ranks of gangs",
        ),
    ],
)  # fmt: skip
def test_on_a_cluster_older_than_the_policy_says_its_own_words_are_written(
    caplog, stated, server, want_written_for, want_unknown
):
    """An API server drops what it does not know without a word."""
    infrastructure = of_cluster(OfVersion(server))
    policy = make_policy(kubernetes={"version": stated}).kubernetes
    with caplog.at_level("WARNING", logger="prefect.gpu.kubernetes"):
        anyio.run(infrastructure._version.read, policy)
    assert infrastructure._version.applied_to(policy).version == want_written_for
    assert infrastructure._version.applied_to(policy).capabilities == capabilities_of(
        want_written_for
    )
    assert (f"does not support {want_unknown}, which manifests " in caplog.text) is bool(
        want_unknown
    )


def test_the_gpus_of_its_pods_are_asked_of_the_prometheus_of_the_policy():
    asked = []

    async def summaries(policy, pods, start, end):
        asked.append((policy.prometheus_url, pods, start))
        return ()

    infrastructure = of_cluster(SimpleNamespace())
    policy = make_policy(telemetry={"prometheus_url": "http://prometheus:9090"})
    infrastructure._telemetry = policy.telemetry
    infrastructure._pod_telemetry = SimpleNamespace(summaries=summaries)
    pod = make_pod()
    attempt = running(started_at=NOW)
    attempt_id = attempt.attempt.attempt_id
    infrastructure._view._last_pods[attempt_id] = {"uid": pod}
    assert anyio.run(infrastructure.gpu_summaries, attempt) == ()
    assert asked == [("http://prometheus:9090", [pod], NOW)]


@pytest.mark.parametrize(
    ("kind", "resources", "want"),
    [
        pytest.param("containers", {"cpu": "500m", "memory": "1Gi"}, (2500, 5120), id="next to"),
        pytest.param("initContainers", {"cpu": "4", "memory": "1Gi"}, (4000, 4096), id="before"),
        pytest.param("containers", {}, (2000, 4096), id="without amounts"),
    ],
)
def test_cpu_and_memory_of_further_containers_are_planned_and_not_given_to_the_run(
    kind, resources, want
):
    template, further = opened(kind, **resources)
    infrastructure = of_cluster(SimpleNamespace(), template=lambda: template)
    variables = {"cpu_request": "2", "memory_request": "4Gi", **further}
    policy = make_policy()
    attempt = running()
    attempt.variables = variables
    attempt.workload = infrastructure.fitted(
        attempt.workload, variables, policy, "train", has_deployment=True
    )
    assert (attempt.workload.shape.cpu_milli, attempt.workload.shape.memory_mib) == want
    context = RunContext(flow_run_id="run-1", attempt=1, attempt_id="a")
    launch = infrastructure._starter.launch_of(attempt, context, {}, policy)
    assert (launch.shape.cpu_milli, launch.shape.memory_mib) == (2000, 4096)
    # An attempt before ran out of memory: the run's own container gets what is more.
    attempt.workload = with_shape(attempt.workload, memory_mib=2 * want[1])
    launch = infrastructure._starter.launch_of(attempt, context, {}, policy)
    assert launch.shape.memory_mib == 4096 + want[1]
