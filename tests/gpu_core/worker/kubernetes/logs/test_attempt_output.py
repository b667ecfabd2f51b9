"""What pods write reaches the logs of their runs, or outlives them."""

import logging
from dataclasses import replace
from types import SimpleNamespace

import anyio
import pytest
from aiohttp import web

from gpu_core.testing.builders.workloads import with_shape
from gpu_core.worker.kubernetes.cluster.rbac_warnings import MissingRights
from gpu_core.worker.kubernetes.jobs.attempt_objects import path_in
from gpu_core.worker.kubernetes.logs import container_runs as containers
from gpu_core.worker.kubernetes.logs.container_runs import ContainerRuns
from gpu_core.worker.kubernetes.logs.output import OutputFollower
from gpu_core.worker.prefect.starts_first import StartsFirst
from tests.gpu_core.adapters.kubernetes.api_server import serving
from tests.gpu_core.worker.kubernetes.objects import moment
from tests.gpu_core.worker.kubernetes.of_cluster import of_cluster, of_rank, running


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
            infrastructure._output.containers = ContainerRuns(
                SimpleNamespace(),
                OutputFollower(client, MissingRights()),
                tasks,
                lambda *_: True,
                StartsFirst(),
            )
            infrastructure._output.containers._followed["a"] = dict.fromkeys(followed, ())
            infrastructure._output.follow = lambda _: None
            for pod in pods:
                infrastructure._view._pod_changed(None, pod)
            server.gone = lambda pod: infrastructure._view._pod_changed(pod, None)
            assert await infrastructure.kill(attempt)
            assert await infrastructure.last_lines(attempt) == want

    anyio.run(scenario)


class SlowLogs(Logs):
    """Opens a log late: after a deletion, if one comes, which takes the logs of all its nodes."""

    def __init__(self, pods):
        super().__init__(pods)
        self.deleted = anyio.Event()

    async def handle(self, request):
        if request.method == "DELETE":
            answer = await super().handle(request)
            self.deleted.set()
            return answer
        if request.path.endswith("/log"):
            with anyio.move_on_after(0.3):
                await self.deleted.wait()
            if self.deleted.is_set():
                return web.json_response({"message": "not found"}, status=404)
        return await super().handle(request)


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
            infrastructure._output.containers = ContainerRuns(
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
                infrastructure._output.containers = ContainerRuns(
                    ItsRun(), followed, tasks, infrastructure._output.is_over, StartsFirst()
                )
                for _ in range(3):
                    infrastructure._output.follow(attempt)
            return infrastructure._output.followed_lines("a")

    with caplog.at_level(logging.INFO, "its run"):
        last_lines = anyio.run(scenario)
    reported = [record.getMessage() for record in caplog.records if record.name == "its run"]
    assert sorted(reported) == want
    if "[node 1] rank-1" in want:
        assert last_lines == ("rank-1",)  # of the node whose failure is the cause


def test_a_node_that_failed_at_once_is_read_before_the_rest_of_its_gang_is_deleted(
    monkeypatch, caplog
):
    """No cycle saw it run, so that nothing has followed its output."""
    monkeypatch.setattr(containers, "OutputLog", ItsRun)
    pods = [of_rank(0, "Running"), of_rank(1, "Failed", 3)]

    async def scenario():
        server = SlowLogs(pods)
        async with serving(server) as client, anyio.create_task_group() as tasks:
            infrastructure, attempt = of_cluster(client), running(attempt_id="a")
            attempt.attempt = replace(attempt.attempt, flow_run_id=RUN_ID)
            attempt.variables = TORCHRUN
            attempt.workload = with_shape(attempt.workload, nodes=2)
            infrastructure._output.containers = ContainerRuns(
                ItsRun(),
                OutputFollower(client, MissingRights()),
                tasks,
                infrastructure._output.is_over,
                StartsFirst(),
            )
            for pod in pods:
                infrastructure._view._pod_changed(None, pod)
            server.gone = lambda pod: infrastructure._view._pod_changed(pod, None)
            assert await infrastructure.kill(attempt)
            tasks.cancel_scope.cancel()

    with caplog.at_level(logging.INFO, "its run"):
        anyio.run(scenario)
    reported = [record.getMessage() for record in caplog.records if record.name == "its run"]
    assert "[node 1] rank-1" in reported
