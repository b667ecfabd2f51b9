"""What the worker does about an attempt that its watches have not reported."""

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest
from aiohttp import web
from prefect.settings import PREFECT_LOGGING_TO_API_ENABLED, temporary_settings

from gpu_core.adapters.kubernetes import KubernetesError
from gpu_core.decisions.attempts.phase import AttemptPhase
from gpu_core.decisions.checkpoints.trust import SIGNING_KEY_VARIABLE
from gpu_core.decisions.kubernetes.manifests.names import ATTEMPT_ID_LABEL, RANK_LABEL
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.policy.kubernetes import SecretReference
from gpu_core.decisions.policy.kubernetes_version import capabilities_of
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.requests.runs.run_context import RunContext
from gpu_core.decisions.requests.runs.run_workload import RunLimits
from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.testing.builders.attempts import NOON, make_attempt, make_run
from gpu_core.testing.builders.workloads import make_policy, with_shape
from gpu_core.worker import GpuKubernetesWorker
from gpu_core.worker.attempts.state import AttemptState, StartFailure, StartFailureKind
from gpu_core.worker.infrastructure import NotStarted, Postponed, Refused, Unavailable
from gpu_core.worker.kubernetes.cluster.cluster_cache import kept_node
from gpu_core.worker.kubernetes.cluster.rbac_warnings import MissingRights
from gpu_core.worker.kubernetes.infrastructure import KubernetesInfrastructure
from gpu_core.worker.kubernetes.jobs.attempt_objects import path_in
from gpu_core.worker.kubernetes.jobs.attempt_request import is_container_job
from gpu_core.worker.kubernetes.jobs.operator_jobs import OperatorJobs
from gpu_core.worker.kubernetes.logs import container_runs as containers
from gpu_core.worker.kubernetes.logs.container_runs import ContainerRuns
from gpu_core.worker.kubernetes.logs.output import OutputFollower
from gpu_core.worker.kubernetes.variables import GpuKubernetesJobConfiguration
from gpu_core.worker.prefect.starts_first import StartsFirst
from tests.gpu_core.adapters.kubernetes.api_server import serving
from tests.gpu_core.worker.kubernetes.objects import NOW, make_job, make_node, make_pod, moment

LIMITS = RunLimits(max_duration_s=None, max_failures=3, max_interruptions=None)


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


def of_cluster(api, prefect_secrets=None, template=dict):
    """The infrastructure of a pool in this cluster, before any watch reported anything."""
    return KubernetesInfrastructure(
        api,
        output_api=api,
        pool="gpu",
        namespace="ml",
        client=SimpleNamespace(),
        wake=lambda: None,
        may_act=lambda: True,
        starts=StartsFirst(),
        prefect_secrets=prefect_secrets or {},
        template=template,
    )


def running(**attempt):
    """An attempt whose Job was asked for; there was no answer."""
    return AttemptState(
        attempt=make_attempt(**attempt),
        record=make_run(),
        workload=Workload(workload_id="run-1", name="run", priority=1, submitted_at=NOON),
        request=GpuRequest(),
        limits=LIMITS,
        run_dir=Path("unused"),
        phase_at_first=None if attempt.get("started_at") else AttemptPhase.ADMITTED,
    )


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
    assert ("may not use PersistentVolumeClaim 'wages'" in why) is is_listed
    reported = "PersistentVolumeClaim 'wages', which the policy does not list"
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


class Logs:
    """Has the output of these pods until it is asked to delete them; the watch reports at once."""

    def __init__(self, pods):
        self.logs = {f"{path_in(pod)}/log": pod["metadata"]["name"] for pod in pods}
        self.gone = lambda pod: None
        self.pods = {path_in(pod): pod for pod in pods}

    async def handle(self, request):
        if request.method == "DELETE":
            del self.logs[f"{request.path}/log"]
            self.gone(self.pods[request.path])
            return web.json_response({})
        if request.path.endswith("/log"):
            assert request.query["container"] == "prefect-job"
            stamp = f"{moment(1)} " if "timestamps" in request.query else ""
            return web.Response(text=f"{stamp}{self.logs[request.path]}\n")
        return web.json_response({"items": []})


class CutLog:
    """Begins to send the output of a pod, and is gone."""

    async def handle(self, request):
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"epoch 1")
        request.transport.abort()
        return response


def test_output_that_cannot_be_read_keeps_no_attempt_from_its_end():
    async def scenario():
        async with serving(CutLog()) as client:
            infrastructure, attempt = of_cluster(client), running(attempt_id="a")
            infrastructure._view._pod_changed(None, of_rank(0, "Failed", 1))
            assert await infrastructure.last_lines(attempt) == ()

    anyio.run(scenario)


def of_rank(rank, phase, code=None, at_s_ago=0):
    ended = {"exitCode": code, "finishedAt": moment(at_s_ago)} if code is not None else None
    return make_pod(
        phase,
        uid=f"rank-{rank}",
        terminated=ended,
        labels={ATTEMPT_ID_LABEL: "a", RANK_LABEL: str(rank)},
    )


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param([of_rank(0, "Succeeded", 0)], ("rank-0",), id="alone"),
        pytest.param(
            [of_rank(0, "Running"), of_rank(1, "Failed", 3)], ("rank-1",), id="the one that failed"
        ),
        pytest.param(
            [of_rank(0, "Succeeded", 0), of_rank(1, "Running")],
            ("rank-0",),
            id="the first, although the rest is ended after it",
        ),
        pytest.param(
            [of_rank(0, "Failed", 1, at_s_ago=1), of_rank(1, "Failed", 3, at_s_ago=9)],
            ("rank-1",),
            id="the first failure, not what followed from it",
        ),
        pytest.param([of_rank(0, "Running")], (), id="none has ended by itself"),
    ],
)
def test_the_output_of_the_pod_that_ended_the_attempt_outlives_it(pods, want):
    async def scenario():
        server = Logs(pods)
        async with serving(server) as client:
            infrastructure, attempt = of_cluster(client), running(attempt_id="a")
            for pod in pods:
                infrastructure._view._pod_changed(None, pod)
            server.gone = lambda pod: infrastructure._view._pod_changed(pod, None)
            assert await infrastructure.kill(attempt)
            assert await infrastructure.last_lines(attempt) == want

    anyio.run(scenario)


@pytest.mark.parametrize(
    ("followed", "want"),
    [
        pytest.param(["rank-0"], ("rank-1",), id="its run has the output of another"),
        pytest.param(["rank-0", "rank-1"], (), id="its run has it already"),
    ],
)
def test_the_output_of_the_node_of_a_container_job_that_failed_is_logged(followed, want):
    pods = [of_rank(0, "Running"), of_rank(1, "Failed", 3)]

    async def scenario():
        server = Logs(pods)
        async with serving(server) as client, anyio.create_task_group() as tasks:
            infrastructure, attempt = of_cluster(client), running(attempt_id="a")
            attempt.variables = {"container_command": "train.py", "framework": "torchrun"}
            infrastructure._containers = ContainerRuns(
                SimpleNamespace(),
                OutputFollower(client, MissingRights()),
                tasks,
                lambda *_: True,
                StartsFirst(),
            )
            infrastructure._containers._followed["a"] = dict.fromkeys(followed, ())
            infrastructure._follow_output = lambda _: None
            for pod in pods:
                infrastructure._view._pod_changed(None, pod)
            server.gone = lambda pod: infrastructure._view._pod_changed(pod, None)
            assert await infrastructure.kill(attempt)
            assert await infrastructure.last_lines(attempt) == want

    anyio.run(scenario)


RUN_ID = "00000000-0000-0000-0000-000000000007"


class ItsRun:
    """The log of the run, which has no line yet."""

    def __init__(self, *_):
        self.continue_after = lambda newest: None

    @staticmethod
    def write(_at, text):
        logging.getLogger("its run").info(text)

    @staticmethod
    async def read_logs(*_, **__):
        return []


@pytest.mark.parametrize(
    ("variables", "want"),
    [
        pytest.param({}, ["rank-0"], id="its output is logged all the same"),
        pytest.param({"stream_output": False}, [], id="its run wants no output"),
    ],
)
def test_a_container_that_ended_before_the_first_poll(monkeypatch, caplog, variables, want):
    monkeypatch.setattr(containers, "OutputLog", ItsRun)
    pod = of_rank(0, "Succeeded", 0)

    async def scenario():
        async with serving(Logs([pod])) as client, anyio.create_task_group() as tasks:
            infrastructure, attempt = of_cluster(client), running(attempt_id="a")
            attempt.attempt = replace(attempt.attempt, flow_run_id=RUN_ID)
            attempt.variables = {"container_command": "echo", **variables}
            infrastructure._containers = ContainerRuns(
                ItsRun(),
                OutputFollower(client, MissingRights()),
                tasks,
                lambda *_: True,
                StartsFirst(),
            )
            infrastructure._view._pod_changed(None, pod)
            assert await infrastructure.kill(attempt)
            infrastructure.settled(attempt)

    with caplog.at_level(logging.INFO, "its run"):
        anyio.run(scenario)
    assert [record.message for record in caplog.records if record.name == "its run"] == want


FLOW = {"container_command": "train.py"}
TORCHRUN = {**FLOW, "framework": "torchrun"}


@pytest.mark.parametrize(
    ("variables", "want"),
    [
        pytest.param(TORCHRUN, ["[node 0] rank-0", "[node 1] rank-1", "[node 2] rank-2"],
                     id="of containers all nodes"),
        pytest.param(FLOW, ["[node 1] rank-1", "[node 2] rank-2"],
                     id="of a flow those that run no Prefect"),
        pytest.param({**TORCHRUN, "stream_output": False}, [], id="none is wanted"),
        pytest.param({**FLOW, "framework": "ray"}, ["[node 0] rank-0"], id="of Ray one"),
    ],
)  # fmt: skip
def test_the_output_of_a_gang_has_the_rank_of_each_node(monkeypatch, caplog, variables, want):
    """Each line once, however often the worker looks."""
    monkeypatch.setattr(containers, "OutputLog", ItsRun)
    pods = [of_rank(0, "Succeeded", 0), of_rank(1, "Failed", 1), of_rank(2, "Succeeded", 0)]

    async def scenario():
        async with serving(Logs(pods)) as client:
            infrastructure, attempt = of_cluster(client), running(attempt_id="a")
            attempt.attempt = replace(attempt.attempt, flow_run_id=RUN_ID)
            attempt.variables = variables
            attempt.workload = with_shape(attempt.workload, nodes=3)
            for pod in pods:
                infrastructure._view._pod_changed(None, pod)
            async with anyio.create_task_group() as tasks:
                followed = OutputFollower(client, MissingRights())
                infrastructure._containers = ContainerRuns(
                    ItsRun(), followed, tasks, infrastructure._is_over, StartsFirst()
                )
                for _ in range(3):
                    infrastructure._follow_output(attempt)
            return infrastructure._last_lines_followed("a")

    with caplog.at_level(logging.INFO, "its run"):
        last_lines = anyio.run(scenario)
    reported = [record.getMessage() for record in caplog.records if record.name == "its run"]
    assert sorted(reported) == want
    if "[node 1] rank-1" in want:
        assert last_lines == ("rank-1",)  # of the node whose failure is the cause


@pytest.mark.parametrize(
    ("first", "node", "want"),
    [
        pytest.param(
            of_rank(0, "Failed", 1, at_s_ago=9), make_node("n2", "Unknown", 2), True, id="silent"
        ),
        pytest.param(of_rank(0, "Failed", 1, at_s_ago=9), make_node("n2"), False, id="well"),
        pytest.param(
            of_rank(0, "Succeeded", 0, at_s_ago=9), make_node("n2", "Unknown", 2), True,
            id="a flow that reported to Prefect itself that it failed",
        ),
        pytest.param(
            of_rank(0, "Failed", 127, at_s_ago=9), make_node("n2", "Unknown", 2), False,
            id="a command that is missing is missing all the same",
        ),
    ],
)  # fmt: skip
def test_a_gang_that_failed_with_a_silent_node_was_interrupted(first, node, want):
    other = of_rank(1, "Running")
    other["spec"]["nodeName"] = "n2"

    async def scenario():
        infrastructure, attempt = of_cluster(SimpleNamespace()), running(attempt_id="a")
        attempt.workload = with_shape(attempt.workload, nodes=2)
        infrastructure._view._node_changed(None, make_node())
        infrastructure._view._node_changed(None, node)
        for pod in (first, other):
            infrastructure._view._pod_changed(None, pod)
        infrastructure._causes.note("a")
        found = await infrastructure.exit(attempt)
        assert found.is_gang_lost is want
        assert ("node n2 was lost, and with it its gang" in (found.message or "")) is want

    anyio.run(scenario)


def test_a_gang_holds_its_gpus_until_its_last_node_has_ended():
    """The flow of the first node is done; the container of the other one ends 40 s later."""
    pods = of_rank(0, "Succeeded", 0, 60), of_rank(1, "Succeeded", 0, 20)

    async def scenario():
        infrastructure, attempt = of_cluster(SimpleNamespace()), running(attempt_id="a")
        attempt.workload = with_shape(attempt.workload, nodes=2)
        infrastructure._view._node_changed(None, make_node())
        for pod in pods:
            infrastructure._view._pod_changed(None, pod)
        infrastructure._causes.note("a")
        return await infrastructure.exit(attempt)

    found = anyio.run(scenario)
    assert 39 <= (found.held_until - found.ended_at).total_seconds() <= 41


def test_a_gang_whose_creation_was_not_noted_began_with_its_first_container():
    """The API server restarted while it was created; what there was of it ran, and was deleted."""
    pods = [of_rank(rank, "Running") for rank in (0, 1)]
    for pod, seconds_ago in zip(pods, (50, 40), strict=True):
        started = {"running": {"startedAt": moment(seconds_ago)}}
        pod["status"]["containerStatuses"][0]["state"] = started
    shares = tuple(NodeShare(node=node, gpu_ids=("0",)) for node in ("n1", "n2"))

    async def scenario():
        attempt = running(attempt_id="a", shares=shares, started_at=None)
        attempt.attempt = replace(attempt.attempt, admitted_at=NOW - timedelta(seconds=60))
        infrastructure = of_cluster(SimpleNamespace())
        for pod in pods:
            infrastructure._view._pod_changed(None, pod)
            infrastructure._view._pod_changed(pod, None)
        return await infrastructure.exit(attempt)

    found = anyio.run(scenario)
    assert found.started_at == datetime.fromisoformat(moment(50))
    assert found.is_interruption
    assert found.message.startswith("The worker or the API server stopped")


@pytest.mark.parametrize(
    ("first_s_ago", "other_s_ago", "node", "want"),
    [
        pytest.param(60, 20, make_node("n2", since_s=30), True, id="the partner's, which is back"),
        pytest.param(20, 60, make_node("n2", since_s=30), True, id="its own, which is back"),
        pytest.param(60, 20, make_node("n2"), False, id="none"),
        pytest.param(20, 60, make_node("n2"), False, id="none, and the partner failed first"),
        pytest.param(20, 10, make_node("n2", since_s=30), False, id="back before anything failed"),
    ],
)
def test_a_gang_whose_silent_node_is_back_was_interrupted(first_s_ago, other_s_ago, node, want):
    """The rank that was cut off ended too, which its node said only when it was back."""
    first, other = of_rank(0, "Failed", 1, first_s_ago), of_rank(1, "Failed", 1, other_s_ago)
    other["spec"]["nodeName"] = "n2"

    async def scenario():
        infrastructure, attempt = of_cluster(SimpleNamespace()), running(attempt_id="a")
        attempt.workload = with_shape(attempt.workload, nodes=2)
        for seen in (make_node(), node):
            infrastructure._view._node_changed(None, seen)
        for pod in (first, other):
            infrastructure._view._pod_changed(None, pod)
        infrastructure._causes.note("a")
        return (await infrastructure.exit(attempt)).is_gang_lost

    assert anyio.run(scenario) is want


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
    ("exit_code", "is_deleted_before", "want"),
    [
        pytest.param(0, False, (0, False, None), id="it completed"),
        pytest.param(3, False, (3, False, "The container failed"), id="it failed"),
        pytest.param(
            1,
            True,
            (1, True, "It was deleted by a user, or by a provisioner with force"),
            id="another user deleted it",
        ),
    ],
)
def test_the_deletion_of_a_sidecar_is_not_why_its_run_ended(exit_code, is_deleted_before, want):
    """Kubernetes dates the end and the deletion to the same second."""
    now = datetime.now(UTC).replace(microsecond=0)
    pod = of_rank(0, "Running", exit_code)
    pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] = now.isoformat()
    deletion = {
        "deletionTimestamp": (now + timedelta(seconds=2)).isoformat(),
        "deletionGracePeriodSeconds": 2,
    }
    deleted = {**pod, "metadata": {**pod["metadata"], **deletion}}

    async def scenario():
        infrastructure, attempt = of_cluster(SimpleNamespace()), running(attempt_id="a")
        seen = deleted if is_deleted_before else pod
        infrastructure._view._pod_changed(None, seen)
        infrastructure._causes.note("a")
        infrastructure._view._pod_changed(seen, deleted)
        found = await infrastructure.exit(attempt)
        words = None if found.message is None else found.message.partition(":")[0]
        return found.exit_code, found.is_interruption, words

    assert anyio.run(scenario) == want


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
        with pytest.raises(InvalidInput, match=rf"{want}.resources takes GPUs that the scheduler"):
            fit()


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
    launch = infrastructure._launch(attempt, context, {}, policy)
    assert (launch.shape.cpu_milli, launch.shape.memory_mib) == (2000, 4096)
    # An attempt before ran out of memory: the run's own container gets what is more.
    attempt.workload = with_shape(attempt.workload, memory_mib=2 * want[1])
    launch = infrastructure._launch(attempt, context, {}, policy)
    assert launch.shape.memory_mib == 4096 + want[1]


def test_parts_of_gpus_for_spark_are_refused_at_once(monkeypatch):
    monkeypatch.setattr(OperatorJobs, "check", lambda _self, _request: None)
    with pytest.raises(InvalidInput, match=r"^framework 'spark' takes whole GPUs"):
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
        assert "names no Secret with the signing key" in why
        assert bodies == []
        return
    (container,) = bodies[0]["spec"]["template"]["spec"]["containers"]
    source = {"secretKeyRef": {"name": "checkpoints", "key": "signing-key"}}
    assert {"name": SIGNING_KEY_VARIABLE, "valueFrom": source} in container["env"]


@pytest.mark.parametrize(
    ("pods", "postponement", "want_known"),
    [
        pytest.param(1, "exceeded quota", False, id="a quota refused the other one"),
        pytest.param(2, "exceeded quota", True, id="the other one came after all, and both ran"),
        pytest.param(1, None, True, id="nothing was refused"),
    ],
)
def test_what_the_pods_of_a_gang_did_that_was_never_whole_is_no_end(pods, postponement, want_known):
    """They waited for the others; the run is not charged, and waits for the quota."""
    shares = tuple(NodeShare(node=f"n{number}", gpu_ids=("0",)) for number in range(2))
    attempt = running(attempt_id="a", shares=shares, started_at=NOON)
    attempt.workload = with_shape(attempt.workload, gpu_count=1, nodes=2)
    if postponement is not None:
        attempt.start_failure = StartFailure(StartFailureKind.POSTPONED, postponement)
    infrastructure = of_cluster(SimpleNamespace())
    for number in range(pods):
        pod = make_pod("Failed", uid=f"p{number}", terminated={"exitCode": 137})
        pod["metadata"]["labels"] = {ATTEMPT_ID_LABEL: "a"}
        infrastructure._view._pod_changed(None, pod)
    assert (anyio.run(infrastructure.exit, attempt) is not None) is want_known


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
    assert (f"does not know {want_unknown}: " in caplog.text) is bool(want_unknown)


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
