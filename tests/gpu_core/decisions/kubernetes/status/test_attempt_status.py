"""What happened to an attempt, as its Job, pods and events show."""

from datetime import datetime, timedelta

import pytest

from gpu_core.decisions.kubernetes.manifests.names import RANK_LABEL
from gpu_core.decisions.kubernetes.status.attempt_status import decisive_pod, observe
from gpu_core.decisions.kubernetes.status.outcome import Cause, ChargedParty, Phase, outcome
from gpu_core.decisions.kubernetes.status.pod_termination import first_start_at, last_end_at

MAIN = "prefect-job"
UNSCHEDULABLE = "0/5 nodes are available: 5 Insufficient nvidia.com/gpu."


def job(*conditions, completions=1, metadata=None, **spec):
    """A Job with these conditions: `(type, reason, message)`."""
    found = [{"type": t, "status": "True", "reason": r, "message": m} for t, r, m in conditions]
    return {
        "metadata": metadata or {},
        "spec": {"completions": completions, **spec},
        "status": {"conditions": found},
    }


def seen(found_job, *arguments):
    """What happened to an attempt with this Job, or without any."""
    return observe([] if found_job is None else [found_job], *arguments)


def pod(phase, *conditions, state=None, name=MAIN, deleted=False, **status):
    """A pod with one container in this state; conditions are `(type, status, reason, message)`."""
    containers = [] if state is None else [{"name": name, "state": state}]
    return {
        "metadata": {"deletionTimestamp": "2026-09-01T12:00:00Z"} if deleted else {},
        "spec": {"containers": [{"name": name, "resources": {"limits": {"memory": "16Gi"}}}]},
        "status": {
            "phase": phase,
            "conditions": [
                {"type": t, "status": s, "reason": r, "message": m} for t, s, r, m in conditions
            ],
            "containerStatuses": containers,
            **status,
        },
    }


def waiting(reason, message=""):
    """A container that waits."""
    return {"waiting": {"reason": reason, "message": message}}


def ended(code, reason="Error", at="2026-09-01T12:00:00Z", message=""):
    """A container that has ended."""
    return {
        "terminated": {"exitCode": code, "reason": reason, "finishedAt": at, "message": message}
    }


def deleted_at(moment, state, grace_s=30):
    """A failed pod that a user deleted at this moment, with this grace."""
    found = pod("Failed", state=state)
    gone_at = datetime.fromisoformat(moment) + timedelta(seconds=grace_s)
    found["metadata"] = {
        "deletionTimestamp": f"{gone_at:%Y-%m-%dT%H:%M:%SZ}",
        "deletionGracePeriodSeconds": grace_s,
    }
    return found


def disrupted(reason, message=""):
    """The condition that distinguishes a disruption from a failure."""
    return ("DisruptionTarget", "True", reason, message)


RUNNING = pod("Running", state={"running": {}})


@pytest.mark.parametrize(
    ("pods", "events", "want_cause", "want_words", "want_needs_person"),
    [
        pytest.param([], [], Cause.CREATING, "being created", False, id="no pod yet"),
        pytest.param(
            [pod("Pending", ("PodScheduled", "False", "Unschedulable", UNSCHEDULABLE))],
            [],
            Cause.UNSCHEDULABLE,
            "5 Insufficient nvidia.com/gpu",
            False,
            id="no node has room",
        ),
        pytest.param(
            [pod("Pending", ("PodScheduled", "False", "SchedulingGated", "gated"))],
            [],
            Cause.GATED,
            "scheduling gate",
            False,
            id="a gate",
        ),
        pytest.param(
            [pod("Pending", state=waiting("ImagePullBackOff", "manifest unknown"))],
            [],
            Cause.BAD_IMAGE,
            "container prefect-job: manifest unknown",
            True,
            id="an image that is not there",
        ),
        pytest.param(
            [pod("Pending", state=waiting("CreateContainerConfigError", 'secret "hf" not found'))],
            [],
            Cause.BAD_CONFIGURATION,
            'secret "hf" not found',
            True,
            id="a Secret that is not there",
        ),
        pytest.param(
            [pod("Pending", state=waiting("ContainerCreating"))],
            [],
            Cause.CREATING,
            "ContainerCreating",
            False,
            id="on its way",
        ),
        pytest.param(
            [pod("Pending", state=waiting("ContainerCreating"))],
            [{"reason": "FailedMount", "message": 'volume "v" : secret "hf" not found'}],
            Cause.BAD_CONFIGURATION,
            'secret "hf" not found',
            True,
            id="a Secret to mount that is not there",
        ),
        pytest.param(
            [pod("Pending", state=waiting("ContainerCreating"))],
            [
                {"reason": "FailedMount", "message": 'volume "v" : secret "hf" not found'},
                {"reason": "Pulling", "message": "Pulling image"},
            ],
            Cause.CREATING,
            "ContainerCreating",
            False,
            id="a Secret that came after all",
        ),
        pytest.param(
            [],
            [
                {"reason": "FailedCreate", "message": "pods is forbidden: exceeded quota: gpus"},
                {"reason": "SuccessfulCreate", "message": "Created pod"},
            ],
            Cause.QUOTA_REFUSED,
            "exceeded quota: gpus",
            False,
            id="the namespace's quota",
        ),
        pytest.param(
            [],
            [
                {
                    "reason": "FailedCreate",
                    "message": "exceeded quota: q, requested: cpu=8, used: cpu=0, limited: cpu=4",
                }
            ],
            Cause.OVER_QUOTA,
            "limited: cpu=4",
            True,
            id="more than the namespace's quota",
        ),
        pytest.param(
            [],
            [{"reason": "FailedCreate", "message": "violates PodSecurity restricted: hostPath"}],
            Cause.ADMISSION_REFUSED,
            "violates PodSecurity",
            True,
            id="Pod Security",
        ),
        pytest.param(
            [
                pod("Pending", ("PodScheduled", "False", "Unschedulable", UNSCHEDULABLE)),
                pod("Pending", state=waiting("ErrImagePull", "denied")),
            ],
            [],
            Cause.BAD_IMAGE,
            "denied",
            True,
            id="what needs a person comes first",
        ),
    ],
)  # fmt: skip
def test_why_it_waits(pods, events, want_cause, want_words, want_needs_person):
    found = seen(job(), pods, events)
    assert (found.phase, found.cause, found.charge) == (Phase.PENDING, want_cause, None)
    assert want_words in found.message
    assert found.needs_person is want_needs_person
    if want_needs_person:
        assert found.remedy


@pytest.mark.parametrize(
    ("pods", "want_cause", "want_charge", "want_words"),
    [
        pytest.param(
            [pod("Failed", state=ended(3, message="Traceback\nValueError: no data\n"))],
            Cause.FAILED,
            ChargedParty.RUN,
            "exit code 3, ValueError: no data",
            id="an exit code and the last words",
        ),
        pytest.param(
            [pod("Failed", state=ended(137, "OOMKilled"))],
            Cause.OUT_OF_MEMORY,
            ChargedParty.RUN,
            "its limit is 16Gi",
            id="out of memory",
        ),
        pytest.param(
            [pod("Failed", state=ended(137))],
            Cause.FAILED,
            ChargedParty.RUN,
            "most likely out of memory",
            id="a kill without an explanation",
        ),
        pytest.param(
            [pod("Failed", state=ended(128, "StartError", message='exec: "trian": not found'))],
            Cause.NOT_STARTED,
            ChargedParty.RUN,
            "not found",
            id="a misspelled command",
        ),
        pytest.param(
            [pod("Failed", state=ended(127))], Cause.NOT_STARTED, ChargedParty.RUN, "127",
            id="a misspelled command in a shell",
        ),
        pytest.param(
            [pod("Failed", reason="DeadlineExceeded", message="active on the node too long")],
            Cause.DEADLINE,
            ChargedParty.LIMIT,
            "maximum duration",
            id="the longest duration",
        ),
        pytest.param(
            [
                pod(
                    "Failed",
                    disrupted("TerminationByKubelet"),
                    reason="Evicted",
                    message='Usage of EmptyDir volume "prefect-gpu-shm" exceeds the limit "8Gi".',
                )
            ],
            Cause.STORAGE_EXCEEDED,
            ChargedParty.RUN,
            "prefect-gpu-shm",
            id="its own volume ran over",
        ),
        pytest.param(
            [
                pod(
                    "Failed",
                    disrupted("TerminationByKubelet"),
                    reason="Evicted",
                    message="The node was low on resource: memory.",
                )
            ],
            Cause.NODE_PRESSURE,
            ChargedParty.INTERRUPTION,
            "low on resource: memory",
            id="the node ran short",
        ),
        pytest.param(
            [pod("Failed", disrupted("EvictionByEvictionAPI"), state=ended(143))],
            Cause.EVICTED,
            ChargedParty.INTERRUPTION,
            "evicted",
            id="a drain",
        ),
        pytest.param(
            [pod("Failed", disrupted("PreemptionByScheduler", "preempting"), state=ended(143))],
            Cause.PREEMPTED_BY_POD,
            ChargedParty.PREEMPTION,
            "higher priority",
            id="the kube-scheduler preempted it",
        ),
        pytest.param(
            [pod("Failed", disrupted("DeletionByPodGC", "node not found"))],
            Cause.NODE_LOST,
            ChargedParty.INTERRUPTION,
            "node not found",
            id="its node is gone",
        ),
        pytest.param(
            [
                pod(
                    "Failed",
                    disrupted("TerminationByKubelet"),
                    reason="Terminated",
                    message="Pod was terminated in response to imminent node shutdown.",
                    state=ended(143),
                )
            ],
            Cause.NODE_SHUTDOWN,
            ChargedParty.INTERRUPTION,
            "imminent node shutdown",
            id="a graceful shutdown of the node",
        ),
        pytest.param(
            [pod("Failed", reason="OutOfnvidia.com/gpu", message="Node didn't have enough")],
            Cause.NODE_REFUSED,
            ChargedParty.INTERRUPTION,
            "Node didn't have enough",
            id="the kubelet had no GPU left",
        ),
        pytest.param(
            [pod("Failed", reason="UnexpectedAdmissionError", message="unhealthy device")],
            Cause.NODE_REFUSED,
            ChargedParty.INTERRUPTION,
            "unhealthy device",
            id="the device plugin refused",
        ),
        pytest.param(
            [pod("Failed", state=ended(137), deleted=True)],
            Cause.KILLED,
            ChargedParty.INTERRUPTION,
            "grace period expired",
            id="killed after its grace period",
        ),
        pytest.param(
            [pod("Failed", state=ended(143), deleted=True)],
            Cause.DELETED,
            ChargedParty.INTERRUPTION,
            "deleted",
            id="deleted, and it ended in time",
        ),
        pytest.param(
            [deleted_at("2026-09-01T11:59:50Z", ended(1))],
            Cause.DELETED,
            ChargedParty.INTERRUPTION,
            "exit code 1",
            id="deleted, and it ended as torchrun does",
        ),
        pytest.param(
            [deleted_at("2026-09-01T12:00:10Z", ended(1))],
            Cause.FAILED,
            ChargedParty.RUN,
            "exit code 1",
            id="deleted when it had failed",
        ),
        pytest.param(
            [pod("Failed", state=ended(137, "ContainerStatusUnknown"))],
            Cause.NODE_LOST,
            ChargedParty.INTERRUPTION,
            "cannot determine",
            id="the kubelet came back without memory",
        ),
    ],
)  # fmt: skip
def test_how_it_failed_and_who_bears_it(pods, want_cause, want_charge, want_words):
    found = seen(job(("Failed", "BackoffLimitExceeded", "")), pods)
    assert (found.phase, found.cause, found.charge) == (Phase.FAILED, want_cause, want_charge)
    assert want_words in found.message


@pytest.mark.parametrize(
    ("found_job", "want_cause", "want_charge"),
    [
        pytest.param(
            job(
                (
                    "Failed",
                    "PodFailurePolicy",
                    "Pod ml/x has condition DisruptionTarget matching FailJob rule at index 0",
                )
            ),
            Cause.EVICTED,
            ChargedParty.INTERRUPTION,
            id="an eviction",
        ),
        pytest.param(
            job(("Failed", "BackoffLimitExceeded", "reached the limit")),
            Cause.DELETED,
            ChargedParty.INTERRUPTION,
            id="a plain delete, as a provisioner without patience does it",
        ),
        pytest.param(
            job(("Failed", "DeadlineExceeded", "active longer than")),
            Cause.DEADLINE,
            ChargedParty.LIMIT,
            id="the deadline of the Job",
        ),
        pytest.param(None, Cause.DELETED, ChargedParty.INTERRUPTION, id="even the Job is gone"),
        pytest.param(
            job(metadata={"deletionTimestamp": "2026-09-01T12:00:00Z"}),
            Cause.DELETED,
            ChargedParty.INTERRUPTION,
            id="the Job is about to be gone",
        ),
    ],
)
def test_a_job_without_pods_still_has_a_status(found_job, want_cause, want_charge):
    found = seen(found_job)
    assert (found.phase, found.cause, found.charge) == (Phase.FAILED, want_cause, want_charge)


@pytest.mark.parametrize(
    ("found_job", "pods"),
    [
        pytest.param(job(), [pod("Running", deleted=True)], id="a pod in its grace period"),
        pytest.param(None, [RUNNING], id="a Job deleted without its pods"),
        pytest.param(
            job(("FailureTarget", "PodFailurePolicy", "DisruptionTarget")),
            [RUNNING],
            id="a Job that is about to fail",
        ),
        pytest.param(
            job(completions=2), [pod("Failed", state=ended(1)), RUNNING], id="half of a gang"
        ),
        pytest.param(
            job(), [pod("Running", disrupted("DeletionByTaintManager"))], id="a silent node"
        ),
        pytest.param(job(), [pod("Unknown")], id="a node that is silent"),
        pytest.param(
            job(), [pod("Running", deleted=True), RUNNING], id="an old Kubernetes that replaced it"
        ),
    ],
)
def test_nothing_is_over_while_a_pod_may_run(found_job, pods):
    """The next attempt must not run at the same time."""
    found = seen(found_job, pods)
    assert (found.phase, found.charge) == (Phase.RUNNING, None)
    assert found.cause is not Cause.RUNNING, "what ends it is told all the same"


def test_of_a_gang_the_cause_is_reported_and_not_the_consequences():
    late, early = "2026-09-01T12:00:09Z", "2026-09-01T12:00:01Z"
    consequence = pod("Failed", state=ended(1, at=early, message="NCCL timeout"))
    error = pod("Failed", state=ended(2, at=late))
    lost = pod("Failed", disrupted("DeletionByPodGC"))
    failed = job(completions=3)
    assert seen(failed, [error, consequence, lost]).cause is Cause.NODE_LOST
    assert seen(failed, [error, consequence]).exit_code == 1
    assert seen(failed, [consequence, error]).exit_code == 1


@pytest.mark.parametrize(
    ("found_job", "pods", "want_phase"),
    [
        pytest.param(job(), [RUNNING], Phase.RUNNING, id="it runs"),
        pytest.param(
            job(("Complete", "CompletionsReached", "")),
            [pod("Succeeded", state=ended(0, "Completed"))],
            Phase.SUCCEEDED,
            id="it is done",
        ),
        pytest.param(
            job(("SuccessCriteriaMet", "CompletionsReached", "")), [], Phase.SUCCEEDED,
            id="its pods were cleared away",
        ),
        pytest.param(
            None, [pod("Succeeded", state=ended(0, "Completed"))], Phase.SUCCEEDED,
            id="its Job was cleared away",
        ),
        pytest.param(job(suspend=True), [], Phase.PENDING, id="Kueue has not admitted it"),
        pytest.param(job(completions=2), [RUNNING], Phase.PENDING, id="half of a gang is there"),
    ],
)  # fmt: skip
def test_the_rest(found_job, pods, want_phase):
    found = seen(found_job, pods)
    assert (found.phase, found.charge, found.needs_person) == (want_phase, None, False)


def of_rank(rank, item):
    """The Job of one node of a gang, or its pod."""
    return {**item, "metadata": {**item["metadata"], "labels": {RANK_LABEL: str(rank)}}}


DONE = pod("Succeeded", state=ended(0, "Completed"))
EVERY_JOB = [of_rank(0, job()), of_rank(1, job())]
COMPLETE, GAVE_UP = job(("Complete", "", "")), job(("Failed", "BackoffLimitExceeded", ""))


@pytest.mark.parametrize(
    ("jobs", "pods", "want_phase", "want_cause"),
    [
        pytest.param(
            EVERY_JOB, [of_rank(0, RUNNING)], Phase.PENDING, Cause.CREATING, id="one is made"
        ),
        pytest.param(
            EVERY_JOB,
            [of_rank(0, RUNNING), of_rank(1, pod("Pending", state=waiting("ErrImagePull")))],
            Phase.PENDING,
            Cause.BAD_IMAGE,
            id="one waits: any of them",
        ),
        pytest.param(
            EVERY_JOB,
            [of_rank(0, DONE), of_rank(1, RUNNING)],
            Phase.RUNNING,
            Cause.RUNNING,
            id="one is done, one runs",
        ),
        pytest.param(
            EVERY_JOB,
            [of_rank(0, DONE), of_rank(1, DONE)],
            Phase.SUCCEEDED,
            Cause.COMPLETED,
            id="all are done",
        ),
        pytest.param(
            EVERY_JOB,
            [of_rank(0, RUNNING), of_rank(1, pod("Failed", state=ended(1)))],
            Phase.RUNNING,
            Cause.FAILED,
            id="one failed, one is to end",
        ),
        pytest.param(
            [of_rank(0, job()), of_rank(1, GAVE_UP)],
            [of_rank(0, DONE)],
            Phase.FAILED,
            Cause.DELETED,
            id="one is done, the pod of the other is gone",
        ),
        pytest.param(
            [of_rank(0, COMPLETE)],
            [of_rank(0, DONE)],
            Phase.FAILED,
            Cause.DELETED,
            id="one is done, the Job of the other is gone",
        ),
        pytest.param(
            [], [of_rank(0, DONE)], Phase.FAILED, Cause.DELETED, id="one is done, no Job is left"
        ),
    ],
)
def test_a_gang_with_a_job_for_each_node(jobs, pods, want_phase, want_cause):
    found = observe(jobs, pods, size=2)
    assert (found.phase, found.cause) == (want_phase, want_cause)
    assert (found.charge is None) == (want_phase is not Phase.FAILED)


FAILS_AT = "2026-09-01T12:00:05Z"


@pytest.mark.parametrize(
    ("reported_at", "code", "want_cause", "want_code"),
    [
        pytest.param("2026-09-01T12:00:05Z", 143, Cause.FAILED, 3, id="its Job is given up"),
        pytest.param("2026-09-01T12:00:09Z", 137, Cause.FAILED, 3, id="and deaf to SIGTERM"),
        pytest.param("2026-09-01T12:00:01Z", 143, Cause.DELETED, 143, id="by a person, before"),
    ],
)
def test_a_pod_stopped_after_another_failed_is_not_the_cause(
    reported_at, code, want_cause, want_code
):
    """Kubernetes ends the rest of an Indexed Job that failed; it failed all the same."""
    reported = deleted_at(reported_at, ended(code, at="2026-09-01T12:00:20Z"))
    bad = pod("Failed", state=ended(3, at=FAILS_AT))
    for pods in ([reported, bad], [bad, reported]):
        found = observe([job(completions=2)], pods)
        assert (found.cause, found.exit_code) == (want_cause, want_code)
        assert decisive_pod(pods) is (bad if want_cause is Cause.FAILED else reported)


def reported(item, seconds_before_its_end):
    """The same pod, deleted so long before its container ended, with a grace of 30 s."""
    at = moment_of_end(item) - timedelta(seconds=seconds_before_its_end)
    deletion = {
        "deletionTimestamp": f"{at + timedelta(seconds=30):%Y-%m-%dT%H:%M:%SZ}",
        "deletionGracePeriodSeconds": 30,
    }
    return {**item, "metadata": {**item["metadata"], **deletion}}


def disrupted_later(item, seconds_after_its_end):
    """The same pod, marked for its node's sake so long after its container ended."""
    at = moment_of_end(item) + timedelta(seconds=seconds_after_its_end)
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "lastTransitionTime": f"{at:%Y-%m-%dT%H:%M:%SZ}",
    }
    return {**item, "status": {**item["status"], "conditions": [condition]}}


def moment_of_end(item):
    (container,) = item["status"]["containerStatuses"]
    return datetime.fromisoformat(container["state"]["terminated"]["finishedAt"])


@pytest.mark.parametrize(
    ("item", "want"),
    [
        pytest.param(DONE, Cause.COMPLETED, id="by itself"),
        pytest.param(reported(DONE, 5), Cause.DELETED, id="after it was asked to end"),
        pytest.param(reported(DONE, -5), Cause.COMPLETED, id="before it was asked to end"),
        pytest.param(
            pod("Succeeded", disrupted("EvictionByEvictionAPI"), state=ended(0, "Completed")),
            Cause.EVICTED,
            id="evicted, say newer clusters",
        ),
        pytest.param(
            disrupted_later(DONE, 5), Cause.COMPLETED, id="done before its node was about to go"
        ),
        pytest.param(disrupted_later(DONE, -5), Cause.NODE_LOST, id="notified that its node goes"),
    ],
)
def test_who_saves_on_sigterm_and_ends_well_may_not_be_done(item, want):
    """Many trainers do. A flow says itself whether it was done."""
    found = seen(job(), [item])
    assert found.cause is want
    assert found.charge is (None if want is Cause.COMPLETED else ChargedParty.INTERRUPTION)
    assert found.exit_code == 0


def beside(container, name="proxy", first=False):
    """A pod that runs, with a sidecar next to the run's container, which is so."""
    statuses = [
        {"name": "prefect-job", "state": container or {"running": {}}},
        {"name": name, "state": {"running": {}}},
    ]
    specs = [{"name": status["name"]} for status in statuses]
    return {
        "metadata": {},
        "spec": {"containers": specs[::-1] if first else specs},
        "status": {"phase": "Running", "containerStatuses": statuses},
    }


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(
    ("container", "want_phase", "want_cause"),
    [
        pytest.param(None, Phase.RUNNING, Cause.RUNNING, id="the run goes on"),
        pytest.param(ended(0, "Completed"), Phase.SUCCEEDED, Cause.COMPLETED, id="it is done"),
        pytest.param(ended(3, "Error"), Phase.FAILED, Cause.FAILED, id="it failed"),
    ],
)
def test_a_sidecar_keeps_no_run_from_its_end(container, want_phase, want_cause, first):
    """A mesh's proxy goes on for ever, wherever in the pod it is."""
    found = seen(job(), [beside(container, first=first)])
    assert (found.phase, found.cause) == (want_phase, want_cause)


def test_a_sidecar_that_is_killed_does_not_undo_what_was_done():
    item = beside(ended(0, "Completed"))
    item["status"]["phase"] = "Failed"
    item["status"]["containerStatuses"][1]["state"] = ended(137, "Error")
    found = seen(job(), [item])
    assert (found.cause, found.exit_code) == (Cause.COMPLETED, 0)


def test_a_sidecar_that_is_started_again_is_no_trouble_of_a_run_that_runs():
    item = beside(None)
    item["status"]["initContainerStatuses"] = [
        {"name": "gcsfuse", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    ]
    assert seen(job(), [item]).phase is Phase.RUNNING


def test_long_words_are_cut():
    words = "node(s) had untolerated taint, " * 100
    found = seen(job(), [pod("Pending", ("PodScheduled", "False", "Unschedulable", words))])
    assert len(found.message) < 500


@pytest.mark.parametrize("cause", list(Cause))
def test_every_cause_has_its_words(cause):
    found = outcome(cause)
    assert found.message.endswith(".")
    assert (found.charge is not None) == (found.phase is Phase.FAILED)
    assert found.remedy or not found.needs_person


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param([], None, id="no pod"),
        pytest.param([RUNNING], None, id="none has ended"),
        pytest.param(
            [
                pod("Succeeded", state=ended(0, at="2026-09-01T12:00:00Z")),
                pod("Succeeded", state=ended(0, at="2026-09-01T12:00:04Z")),
                RUNNING,
            ],
            "2026-09-01T12:00:04+00:00",
            id="two nodes of a gang, of which the second ends later",
        ),
        pytest.param(
            [
                pod(
                    "Succeeded",
                    containerStatuses=[
                        {"name": MAIN, "state": ended(0, at="2026-09-01T12:00:00Z")},
                        {"name": "logs", "state": ended(0, at="2026-09-01T14:00:30+02:00")},
                    ],
                )
            ],
            "2026-09-01T12:00:30+00:00",
            id="a sidecar ends later, in another time zone",
        ),
        pytest.param(
            [pod("Failed", state={"terminated": {"exitCode": 1}})], None, id="no time was noted"
        ),
    ],
)
def test_the_last_container_of_all_pods_is_the_last_end(pods, want):
    found = last_end_at(pods)
    assert (found and found.isoformat()) == want


@pytest.mark.parametrize(
    ("states", "want"),
    [
        pytest.param([{"waiting": {}}], None, id="none has started"),
        pytest.param([{"running": {"startedAt": "2026-03-04T12:00:09Z"}}], 9, id="it runs"),
        pytest.param(
            [{"terminated": {"startedAt": "1970-01-01T00:00:00Z"}}], None, id="it could not start"
        ),
        pytest.param(
            [
                {"terminated": {"startedAt": "1970-01-01T00:00:00Z"}},
                {"terminated": {"startedAt": "2026-03-04T12:00:07Z"}},
                {"running": {"startedAt": "2026-03-04T12:00:08Z"}},
            ],
            7,
            id="one could not, and two did",
        ),
    ],
)
def test_an_attempt_starts_with_the_first_container_that_did(states, want):
    pods = [{"status": {"containerStatuses": [{"state": state}]}} for state in states]
    found = first_start_at(pods)
    assert (None if found is None else found.second) == want
