"""Attempts that an operator runs: whether they live, how they ended, what their trouble is."""

import pytest

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from gpu_core.worker.kubernetes.jobs.operator_job_status import (
    custom_exit_of,
    custom_trouble_of,
    is_custom_alive,
    may_make_pods,
)
from tests.gpu_core.worker.kubernetes.objects import NOW, make_node, make_pod, moment

POLICY = KubernetesPolicy()


def ray(deployment, job="", created_s_ago=60, deleted=False, **status):
    """A RayJob in this state."""
    metadata = {"name": "gpu-a", "namespace": "ml", "creationTimestamp": moment(created_s_ago)}
    return {
        "kind": "RayJob",
        "metadata": metadata | ({"deletionTimestamp": moment(1)} if deleted else {}),
        "status": {"jobDeploymentStatus": deployment, "jobStatus": job, **status},
    }


RUNS = ray("Running", "RUNNING")
DONE = ray("Complete", "SUCCEEDED", endTime="2026-03-04T11:59:00Z")
FAILED = ray("Failed", "FAILED", message="entrypoint failed", endTime="2026-03-04T11:59:00Z")


@pytest.mark.parametrize(
    ("item", "pods", "fenced", "want"),
    [
        pytest.param(None, [], (), False, id="nothing of it is there"),
        pytest.param(None, [make_pod()], (), True, id="a pod that outlives its object"),
        pytest.param(ray(""), [], (), True, id="the operator has not seen it yet"),
        pytest.param(RUNS, [make_pod()], (), True, id="it runs"),
        pytest.param(
            RUNS, [make_pod("Failed")], (), True, id="a pod failed: the operator says what it means"
        ),
        pytest.param(RUNS, [make_pod()], ("n1",), False, id="on a node that is fenced off"),
        pytest.param(DONE, [make_pod()], (), False, id="done, its pods are left behind"),
        pytest.param(FAILED, [], (), False, id="failed"),
    ],
)
def test_an_attempt_lives_as_long_as_its_operator_says(item, pods, fenced, want):
    assert is_custom_alive(item, pods, fenced) is want


@pytest.mark.parametrize(
    ("item", "want"),
    [
        pytest.param(None, False, id="it no longer exists"),
        pytest.param(RUNS, True, id="it runs"),
        pytest.param(DONE, False, id="it is over"),
        pytest.param(ray("Complete", deleted=True), True, id="its pods are being taken away"),
    ],
)
def test_its_gpus_are_free_when_no_pod_can_come(item, want):
    assert may_make_pods(item) is want


EVICTED = make_pod("Failed")
EVICTED["status"]["conditions"] = [
    {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
]
CLEARED_AWAY = make_pod("Failed", terminated={"exitCode": 143}, deletionTimestamp=moment(1))


@pytest.mark.parametrize(
    ("item", "pods", "want_code", "want_interruption", "want_own", "want_words"),
    [
        pytest.param(DONE, [], 0, False, False, None, id="the operator says that it is done"),
        pytest.param(FAILED, [], None, False, True, "entrypoint failed", id="it failed"),
        pytest.param(FAILED, [EVICTED], None, True, False, "evicted", id="a pod was evicted"),
        pytest.param(
            FAILED, [CLEARED_AWAY], None, False, True, "entrypoint failed",
            id="the operator took the other pods away: no cause, a consequence",
        ),
        pytest.param(RUNS, [make_pod()], None, True, False, "no longer exists",
                     id="a user deleted it"),
    ],
)  # fmt: skip
def test_how_it_ended(item, pods, want_code, want_interruption, want_own, want_words):
    found = custom_exit_of(item, pods, ["step 1"])
    assert found is not None
    assert (found.exit_code, found.is_interruption, found.is_own_failure, found.is_flow) == (
        want_code,
        want_interruption,
        want_own,
        False,
    )
    assert (found.message is None) == (want_words is None)
    assert (want_words or "") in (found.message or "")
    assert found.ended_at is None or f"{found.ended_at:%H:%M}" == "11:59"


def test_an_end_has_the_operators_time_and_a_failure_the_last_lines():
    found = custom_exit_of(FAILED, [], ["step 1", "no data"])
    assert found is not None
    assert found.ended_at is not None
    assert found.message is not None
    assert found.message.endswith("step 1\nno data")


def test_what_no_worker_saw_is_unknown():
    assert custom_exit_of(None, [], []) is None


BAD_IMAGE = {"reason": "ImagePullBackOff", "message": "cannot pull 'train:typo'"}
NO_IMAGE = {"reason": "ErrImagePull", "message": "manifest unknown"}


def waiting_pod(seconds, **more):
    return make_pod("Pending", uid="p2", creationTimestamp=moment(seconds), **more)


@pytest.mark.parametrize(
    ("item", "pods", "want"),
    [
        pytest.param(RUNS, [make_pod()], None, id="it runs"),
        pytest.param(ray("", created_s_ago=599), [], None, id="not long enough"),
        pytest.param(ray("", created_s_ago=600), [], EndReason.INTERRUPTED, id="no operator acts"),
        pytest.param(
            RUNS, [make_pod(), waiting_pod(600)], EndReason.INTERRUPTED,
            id="a pod in the place of a lost one finds no room",
        ),
        pytest.param(
            ray("Initializing", created_s_ago=600), [waiting_pod(600, waiting=BAD_IMAGE)],
            EndReason.TIMED_OUT, id="a person's work",
        ),
        pytest.param(
            ray("Initializing", created_s_ago=1), [waiting_pod(1, waiting=NO_IMAGE)],
            EndReason.REFUSED, id="an image that does not exist",
        ),
        pytest.param(
            RUNS, [make_pod(), waiting_pod(1, waiting=NO_IMAGE)], None,
            id="an image that the others have had",
        ),
        pytest.param(
            RUNS, [make_pod(node="n2")], EndReason.INTERRUPTED, id="its node no longer exists"
        ),
        pytest.param(DONE, [waiting_pod(9_000)], None, id="it is over"),
    ],
)  # fmt: skip
def test_trouble(item, pods, want):
    found = custom_trouble_of(item, pods, {"n1": make_node()}, POLICY, NOW, {"n2"})
    assert (found and found.reason) == want


QUOTA = 'pods "gpu-a-head" is forbidden: exceeded quota: q'
REFUSED = {"reason": "FailedToCreateHeadPod", "message": f"Failed to create: {QUOTA}"}
SPARK_REFUSED = {
    "kind": "SparkApplication",
    "metadata": {"name": "gpu-a", "namespace": "ml", "creationTimestamp": moment(60)},
    "status": {"applicationState": {"state": "SUBMISSION_FAILED", "errorMessage": QUOTA}},
}


@pytest.mark.parametrize(
    ("item", "events", "want"),
    [
        pytest.param(ray("Initializing"), [REFUSED], True, id="a pod is missing"),
        pytest.param(ray(""), [REFUSED], True, id="all pods are missing"),
        pytest.param(RUNS, [REFUSED], False, id="it runs: the pod was made later"),
        pytest.param(ray("Suspended"), [REFUSED], False, id="Kueue has taken it back"),
        pytest.param(ray("Initializing"), [], False, id="nothing was refused"),
        pytest.param(SPARK_REFUSED, [], True, id="a driver, which the operator says itself"),
    ],
)
def test_what_a_quota_refuses_an_operator_is_postponed_at_once(item, events, want):
    trouble = custom_trouble_of(item, [], {}, POLICY, NOW, events=events)
    assert (trouble is not None and trouble.reason is EndReason.POSTPONED) is want
    if trouble is not None:
        assert "exceeded quota: q" in trouble.message


def test_a_driver_that_a_quota_refused_is_no_failure_of_its_run():
    assert is_custom_alive(SPARK_REFUSED, [], ())
