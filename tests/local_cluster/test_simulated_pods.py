"""What a pod on a node without a kubelet does next."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.cluster import Json

NOW = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
STARTED = "2026-11-01T11:59:00Z"


@pytest.fixture
def next_step(local_cluster_module):
    return local_cluster_module("simulated_pods").next_step


@pytest.mark.parametrize(
    ("phase", "annotations", "deletion", "want_step", "want_after_s", "want_phase"),
    [
        pytest.param("Pending", {}, None, "start", 0, "Running", id="a pod starts at once"),
        pytest.param(
            "Pending", {"start-after-s": "2.5"}, None, "start", 2.5, "Running", id="or later"
        ),
        pytest.param(
            "Running", {"run-for-s": "90"}, None, "end", 30, "Succeeded", id="it ends in its time"
        ),
        pytest.param(
            "Running", {"run-for-s": "5"}, None, "end", -55, "Succeeded", id="a late end is due"
        ),
        pytest.param(
            "Running",
            {"run-for-s": "90", "exit-code": "3"},
            None,
            "end",
            30,
            "Failed",
            id="it fails",
        ),
        pytest.param("Running", {}, 30, "stop", 0, "Failed", id="a deletion stops it"),
        pytest.param(
            "Running", {"stop-takes-s": "10"}, 30, "stop", 10, "Failed", id="a stop takes time"
        ),
        pytest.param(
            "Running", {"stop-takes-s": "60"}, 30, "stop", 30, "Failed", id="its grace at most"
        ),
        pytest.param("Pending", {}, 30, "remove", 0, None, id="what never started is removed"),
        pytest.param("Failed", {}, 30, "remove", 0, None, id="what has stopped is removed"),
    ],
)
def test_next_step(next_step, phase, annotations, deletion, want_step, want_after_s, want_phase):
    step = next_step(_pod(phase, annotations, deletion), NOW)
    assert step.name == want_step
    assert step.due == NOW + timedelta(seconds=want_after_s)
    assert (step.status and step.status["phase"]) == want_phase


@pytest.mark.parametrize(
    ("phase", "annotations"),
    [
        pytest.param("Running", {}, id="it runs for ever"),
        pytest.param("Succeeded", {"run-for-s": "5"}, id="it has ended"),
    ],
)
def test_nothing_is_left_to_do(next_step, phase, annotations):
    assert next_step(_pod(phase, annotations, None), NOW) is None


def test_a_failed_container_says_with_what(next_step):
    pod = _pod("Running", {"run-for-s": "90", "exit-code": "3"}, None)
    (container,) = next_step(pod, NOW).status["containerStatuses"]
    assert container["state"]["terminated"] == {
        "exitCode": 3,
        "reason": "Error",
        "startedAt": STARTED,
        "finishedAt": "2026-11-01T12:00:30Z",
    }


def _pod(phase: str, annotations: dict[str, str], deletion_grace_s: int | None) -> Json:
    metadata: Json = {
        "annotations": {f"simulated.prefect-gpu/{name}": text for name, text in annotations.items()}
    }
    if deletion_grace_s is not None:
        metadata |= {
            "deletionTimestamp": "2026-11-01T12:00:30Z",
            "deletionGracePeriodSeconds": deletion_grace_s,
        }
    return {
        "metadata": metadata,
        "spec": {"containers": [{"name": "main", "image": "busybox:1"}]},
        "status": {"phase": phase, "startTime": STARTED},
    }
