"""Why the pods of a pool's workers do not run."""

from typing import Any

import pytest

from gpu_core.decisions.checks.doctor.worker_pods import worker_pod_findings

ARGS = ["prefect", "worker", "start", "--pool", "gpu", "--type", "gpu-kubernetes"]
SECRET = {"reason": "CreateContainerConfigError", "message": 'secret "gpu-worker" not found'}
ENDED = {"terminated": {"exitCode": 2}}


def a_pod(
    state: dict[str, Any] | None = None,
    last: dict[str, Any] | None = None,
    args: list[str] = ARGS,
    conditions: list[dict[str, str]] | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    """A worker's pod whose container is in this state."""
    container = {"state": state, "lastState": last or {}}
    return {
        "metadata": {"namespace": "ops", "name": "w-1", **metadata},
        "spec": {"containers": [{"name": "worker", "args": args}]},
        "status": {
            "conditions": conditions or [],
            "containerStatuses": [] if state is None else [container],
        },
    }


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(a_pod({"running": {}}), "ok 1 worker podrunning without issues", id="it runs"),
        pytest.param(
            a_pod({"running": {}}, ENDED),
            "ok 1 worker podrunning without issues",
            id="it runs again",
        ),
        pytest.param(
            a_pod({"waiting": {"reason": "ContainerCreating"}}),
            "ok 1 worker podrunning without issues",
            id="it starts",
        ),
        pytest.param(
            a_pod({"waiting": SECRET}),
            'failed ops/w-1 is not running: CreateContainerConfigError: secret "gpu-worker" not '
            "found; kubectl -n ops describe pod w-1",
            id="its Secret is missing",
        ),
        pytest.param(
            a_pod({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}}, ENDED),
            "failed ops/w-1 is not running: the last container exited with code 2; "
            "kubectl -n ops logs w-1",
            id="it ends again and again",
        ),
        pytest.param(
            a_pod(
                conditions=[
                    {"type": "PodScheduled", "status": "False", "message": "0/3 nodes: cpu"}
                ]
            ),
            "failed ops/w-1 is not running: 0/3 nodes: cpu; kubectl -n ops describe pod w-1",
            id="no suitable node found",
        ),
        pytest.param(
            a_pod({"waiting": SECRET}, args=[*ARGS[:4], "other", *ARGS[5:]]),
            None,
            id="another pool's",
        ),
        pytest.param(
            a_pod({"waiting": SECRET}, deletionTimestamp="2026-03-01T12:00:00Z"),
            None,
            id="it is being deleted",
        ),
    ],
)
def test_why_a_worker_pod_does_not_run(pod: dict[str, Any], want: str | None) -> None:
    found = list(worker_pod_findings("gpu", "gpu-kubernetes", [pod]))
    said = [f"{f.status.value} {f.message}" + (f"; {f.remedy}" if f.remedy else "") for f in found]
    assert said == ([] if want is None else [want])
