"""Which frameworks a cluster can run, and what is kept of their objects."""

from collections import Counter

import anyio
import pytest

from gpu_core.decisions.kubernetes.variables.frameworks import FRAMEWORKS
from gpu_core.decisions.kubernetes.variables.variables import parse_pod_request
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.worker.kubernetes.jobs.operator_jobs import (
    OperatorJobs,
    kept_custom_job,
    path_of,
)
from tests.gpu_core.adapters.kubernetes.api_server import ScriptedServer, serving

pytestmark = pytest.mark.anyio

ATTEMPT = "prefect-gpu.dev/attempt-id"


@pytest.fixture
def anyio_backend():
    """The client of the cluster is built on asyncio."""
    return "asyncio"


class OperatorServer(ScriptedServer):
    """Serves the kinds whose plural names are given."""

    def __init__(self, *served):
        super().__init__()
        self.served = set(served)
        self.asked = Counter()

    async def handle(self, request):
        plural = request.path.rsplit("/", 1)[1]
        self.asked[plural] += 1
        if plural not in self.served:
            self.refusals = [(404, {"reason": "NotFound", "message": "page not found"})]
        return await super().handle(request)


def request(framework, command="train.py"):
    return parse_pod_request({"framework": framework, "container_command": command})


async def test_a_framework_without_its_operator_is_refused_in_one_line():
    async with serving(OperatorServer("rayjobs")) as api, anyio.create_task_group() as tasks:
        custom_jobs = OperatorJobs(api, lambda: None)
        await custom_jobs.start(tasks)

        custom_jobs.check(request("ray"))
        custom_jobs.check(request("none", None))
        custom_jobs.check(request("torchrun"))
        with pytest.raises(
            InvalidInput, match="the kind SparkApplication is not installed"
        ) as error:
            custom_jobs.check(request("spark"))
        assert "Install the Spark operator" in str(error.value)
        with pytest.raises(InvalidInput, match="container_command is missing"):
            custom_jobs.check(request("ray", None))
        tasks.cancel_scope.cancel()


async def test_an_operator_that_comes_later_is_found():
    server = OperatorServer()
    async with serving(server) as api, anyio.create_task_group() as tasks:
        custom_jobs = OperatorJobs(api, lambda: None)
        await custom_jobs.start(tasks)
        server.served.add("trainjobs")
        await custom_jobs.refresh()
        assert server.asked["trainjobs"] == 1  # not before a minute has passed
        custom_jobs._polls.reset()
        await custom_jobs.refresh()
        custom_jobs.check(request("kubeflow"))
        tasks.cancel_scope.cancel()


async def test_an_object_is_found_by_its_attempt_and_remembered_until_it_is_settled():
    server, changes, is_gone = OperatorServer("rayjobs"), [], anyio.Event()
    server.add("gpu-a", status={"jobStatus": "RUNNING"})
    server.items["gpu-a"]["metadata"]["labels"] = {ATTEMPT: "a1"}
    async with serving(server) as api, anyio.create_task_group() as tasks:

        def on_change():
            changes.append(custom_jobs.of("a1"))
            if changes[-1] is None:
                is_gone.set()

        custom_jobs = OperatorJobs(api, on_change)
        await custom_jobs.start(tasks)
        found = custom_jobs.of("a1")
        assert found is not None
        assert found["kind"] == "RayJob"

        server.emit("DELETED", server.remove("gpu-a"))
        await is_gone.wait()
        assert custom_jobs.last_of("a1") == found
        custom_jobs.forget("a1")
        assert custom_jobs.last_of("a1") is None
        assert changes == [found, None]
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("framework", "status", "want"),
    [
        pytest.param(
            "ray",
            {"jobStatus": "RUNNING", "rayClusterStatus": {"state": "ready"}},
            {"jobStatus": "RUNNING"},
            id="Ray",
        ),
        pytest.param("kubeflow", None, {}, id="Trainer: just made"),
        pytest.param(
            "spark",
            {"applicationState": {"state": "RUNNING"}, "executorState": {"e1": "RUNNING"}},
            {"applicationState": {"state": "RUNNING"}},
            id="Spark",
        ),
    ],
)
def test_only_what_shows_how_it_is_is_kept(framework, status, want):
    item = {"metadata": {"name": "gpu-a", "namespace": "ml", "managedFields": []}, "spec": {}}
    kept = kept_custom_job(FRAMEWORKS[framework], item | ({"status": status} if status else {}))
    assert kept["status"] == want
    assert "managedFields" not in kept["metadata"]
    assert path_of(kept) == f"{FRAMEWORKS[framework].path('ml')}/gpu-a"
