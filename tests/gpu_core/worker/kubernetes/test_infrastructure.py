"""What the worker does about an attempt that its watches have not told of."""

from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest
from aiohttp import web

from gpu_core.decisions.request import GpuRequest, RunLimits
from gpu_core.decisions.workload import Workload
from gpu_core.worker.kubernetes.infrastructure import KubernetesInfrastructure
from gpu_core.worker.running import RunningAttempt
from tests.gpu_core.accounting_builders import NOON, make_attempt, make_run
from tests.gpu_core.adapters.kubernetes.api_server import serving
from tests.gpu_core.worker.kubernetes.objects import make_job, make_pod

LIMITS = RunLimits(max_duration_s=None, max_failures=3, max_interruptions=None)


class Api:
    """Has these Jobs and pods, whatever the watches said, and deletes what it is told to."""

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


def running():
    """An attempt whose Job was asked for; there was no answer."""
    return RunningAttempt(
        attempt=make_attempt(),
        record=make_run(),
        workload=Workload(workload_id="run-1", name="run", priority=1, submitted_at=NOON),
        request=GpuRequest(),
        limits=LIMITS,
        run_dir=Path("unused"),
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
def test_a_run_does_not_start_again_beside_what_no_watch_has_told_of(
    jobs, pods, want_gone, want_deleted
):
    async def scenario():
        api = Api(list(jobs), list(pods))
        async with serving(api) as client:
            infrastructure = KubernetesInfrastructure(
                client,
                pool="gpu",
                namespace="ml",
                client=SimpleNamespace(),
                wake=lambda: None,
                may_act=lambda: True,
            )
            assert await infrastructure.kill(running()) is want_gone
            assert api.deleted == want_deleted
            assert await infrastructure.kill(running()) is True

    anyio.run(scenario)
