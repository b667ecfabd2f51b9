"""Whether an attempt lives, and what its trouble is."""

from datetime import datetime

import pytest

from gpu_core.decisions.kubernetes.manifests.names import RANK_LABEL
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from gpu_core.worker.kubernetes.jobs.job_status import exit_of, is_alive, is_losing_pods, trouble_of
from tests.gpu_core.worker.kubernetes.objects import NOW, make_job, make_node, make_pod, moment

POLICY = KubernetesPolicy()


def make_gang_job():
    """The Job of two nodes."""
    job = make_job()
    job["spec"]["completions"] = 2
    return job


@pytest.mark.parametrize(
    ("jobs", "pods", "fenced", "want"),
    [
        pytest.param([], [], (), False, id="nothing of it is there"),
        pytest.param([make_job()], [], (), True, id="a Job that will make its pod"),
        pytest.param([make_job(finished="Failed")], [], (), False, id="a Job that gave up"),
        pytest.param([make_job()], [make_pod()], (), True, id="a pod that runs"),
        pytest.param([], [make_pod()], (), True, id="a pod that outlives its Job"),
        pytest.param([make_job()], [make_pod("Succeeded")], (), False, id="done, not yet noticed"),
        pytest.param(
            [make_job()],
            [make_pod(), make_pod("Failed", uid="p2")],
            (),
            False,
            id="one of a gang failed: the others wait in vain",
        ),
        pytest.param(
            [make_gang_job()],
            [make_pod(deletionTimestamp=moment(1)), make_pod("Failed", uid="p2")],
            (),
            True,
            id="one of a gang has ended, the other was asked to and has its grace",
        ),
        pytest.param(
            [make_gang_job()],
            [make_pod(deletionTimestamp=moment(1)), make_pod("Failed", node="n2", uid="p2")],
            ("n1",),
            False,
            id="one of a gang has ended, the other is on a node that is fenced off",
        ),
        pytest.param(
            [make_gang_job()],
            [make_pod(), make_pod("Succeeded", uid="p2")],
            (),
            True,
            id="one of a gang has done its part: the other goes on",
        ),
        pytest.param(
            [make_gang_job()], [make_pod("Succeeded")], (), True, id="the other is still to come"
        ),
        pytest.param(
            [make_gang_job()],
            [make_pod("Succeeded"), make_pod("Succeeded", uid="p2")],
            (),
            False,
            id="both have done their part",
        ),
        pytest.param(
            [make_gang_job()],
            [make_pod("Succeeded"), make_pod(node="n2", uid="p2")],
            ("n2",),
            False,
            id="one has done its part, the other is on a node that is fenced off",
        ),
        pytest.param([make_job()], [make_pod()], ("n1",), False, id="on a node that is fenced off"),
        pytest.param(
            [make_job()],
            [make_pod(), make_pod(node="n2", uid="p2")],
            ("n2",),
            True,
            id="one of two nodes is fenced off: the other has to be ended first",
        ),
        pytest.param([make_job()], [make_pod("Pending", node=None)], (), True, id="not placed yet"),
    ],
)
def test_an_attempt_lives_as_long_as_it_may_work(jobs, pods, fenced, want):
    assert is_alive(jobs, pods, fenced) is want


INDEX = "batch.kubernetes.io/job-completion-index"


@pytest.mark.parametrize("kind", [("labels", RANK_LABEL), ("annotations", INDEX)])
@pytest.mark.parametrize(("ended_rank", "want"), [("0", False), ("1", True)])
def test_a_gang_of_a_flow_is_over_when_the_first_node_is(kind, ended_rank, want):
    field, key = kind
    ended = make_pod("Succeeded", uid="p1", **{field: {key: ended_rank}})
    other = make_pod(uid="p2", **{field: {key: "1" if ended_rank == "0" else "0"}})
    assert is_alive([make_gang_job()], [ended, other], (), is_flow=True) is want
    assert is_alive([make_gang_job()], [ended, other], ())


DELETED_JOB = make_job()
DELETED_JOB["metadata"]["deletionTimestamp"] = moment(1)
DELETED = {"deletionTimestamp": moment(1)}


@pytest.mark.parametrize(
    ("jobs", "pods", "want"),
    [
        pytest.param([make_job()], [make_pod(**DELETED)], True, id="a user deletes its pod"),
        pytest.param([make_job()], [make_pod()], False, id="it runs"),
        pytest.param(
            [make_job()],
            [make_pod("Failed", **DELETED)],
            True,
            id="another may be there by then",
        ),
        pytest.param(
            [make_job()], [make_pod("Succeeded", **DELETED)], False, id="its work is done"
        ),
        pytest.param(
            [], [make_pod(**DELETED)], False, id="its Job no longer exists and makes no other"
        ),
        pytest.param([DELETED_JOB], [make_pod(**DELETED)], False, id="its Job is being deleted"),
        pytest.param(
            [make_job(finished="Failed")], [make_pod(**DELETED)], False, id="its Job has ended"
        ),
    ],
)
def test_an_attempt_whose_pod_is_deleted_loses_its_job_before_that_makes_another(jobs, pods, want):
    assert is_losing_pods(jobs, pods) is want


@pytest.mark.parametrize(
    ("node", "want"),
    [
        pytest.param(make_node(), None, id="a node that is well"),
        pytest.param(None, "is gone", id="deleted"),
        pytest.param(make_node(ready="Unknown", since_s=10), None, id="silent for a moment"),
        pytest.param(
            make_node(ready="Unknown", since_s=90), "has not reported for 1m 30s", id="silent"
        ),
        pytest.param(
            make_node(taints=["aws-node-termination-handler/spot-itn"]),
            "aws-node-termination-handler/spot-itn",
            id="the provider takes it",
        ),
        pytest.param(make_node(taints=["dedicated"]), None, id="a taint that means nothing here"),
    ],
)
def test_a_run_is_moved_from_a_node_that_is_about_to_go(node, want):
    nodes, gone = ({}, {"n1"}) if node is None else ({"n1": node}, set())
    trouble = trouble_of([make_job()], [make_pod()], [], nodes, POLICY, NOW, gone_nodes=gone)
    assert (trouble is None) == (want is None)
    if trouble is not None and want is not None:
        assert want in trouble.message
        assert trouble.reason is EndReason.INTERRUPTED


def test_a_node_that_no_watch_has_seen_is_not_gone():
    """Pods and nodes are watched apart, and the pod of a new node may be reported first."""
    assert trouble_of([make_job()], [make_pod()], [], {}, POLICY, NOW) is None


def with_proxy(item):
    """The same pod with a sidecar that still runs after the run's container."""
    item["spec"]["containers"].insert(0, {"name": "proxy"})
    proxy = {"name": "proxy", "state": {"running": {}}}
    item["status"]["containerStatuses"].insert(0, proxy)
    return item


@pytest.mark.parametrize(
    ("terminated", "want"),
    [
        pytest.param(None, None, id="it works"),
        pytest.param({"exitCode": 0}, (0, False), id="it is done"),
        pytest.param({"exitCode": 3}, (3, False), id="it failed"),
    ],
)
def test_an_attempt_is_over_when_its_own_container_is(terminated, want):
    """A mesh's proxy would hold its GPUs for ever, and lend it its own exit code."""
    pod = with_proxy(make_pod(terminated=terminated))
    assert is_alive([make_job()], [pod], ()) is (want is None)
    if want is not None:
        found = exit_of([], [pod], [], is_flow=False)
        assert found is not None
        assert (found.exit_code, found.is_interruption) == want


BAD_IMAGE = {"reason": "ImagePullBackOff", "message": "cannot pull 'train:typo'"}


@pytest.mark.parametrize(
    ("created_s_ago", "pod", "want"),
    [
        pytest.param(599, make_pod("Pending", waiting=BAD_IMAGE), None, id="not long enough"),
        pytest.param(
            600, make_pod("Pending", waiting=BAD_IMAGE), EndReason.TIMED_OUT, id="a person's work"
        ),
        pytest.param(600, make_pod("Pending"), EndReason.INTERRUPTED, id="room elsewhere perhaps"),
        pytest.param(9_000, make_pod(), None, id="it runs"),
    ],
)
def test_a_pod_that_does_not_start_is_given_up_in_time(created_s_ago, pod, want):
    trouble = trouble_of([make_job(created_s_ago)], [pod], [], {"n1": make_node()}, POLICY, NOW)
    assert (trouble and trouble.reason) == want
    if want is EndReason.TIMED_OUT and trouble is not None:
        assert "train:typo" in trouble.message


NO_IMAGE = {"reason": "ErrImagePull", "message": "manifest unknown: manifest unknown"}
NO_KEYS = {"reason": "ErrImagePull", "message": "unexpected status: 401 Unauthorized"}


@pytest.mark.parametrize(
    ("waiting", "more", "want"),
    [
        pytest.param(NO_IMAGE, {}, EndReason.REFUSED, id="it does not exist"),
        pytest.param(NO_IMAGE, {"is_first": False}, None, id="an earlier attempt may have had it"),
        pytest.param(NO_KEYS, {}, EndReason.REFUSED, id="no pull secret"),
        pytest.param(NO_KEYS, {"is_for_new_node": True}, None, id="a node that has just been made"),
        pytest.param(BAD_IMAGE, {}, None, id="no known words"),
    ],
)
def test_an_image_that_can_never_be_pulled_is_refused_at_once(waiting, more, want):
    pod = make_pod("Pending", waiting=waiting)
    trouble = trouble_of([make_job(1)], [pod], [], {"n1": make_node()}, POLICY, NOW, **more)
    assert (trouble and trouble.reason) == want


@pytest.mark.parametrize("waits", [0, 1])
def test_the_image_of_one_container_is_looked_at_while_another_one_runs(waits):
    pod = make_pod("Running")
    states = [{"running": {"startedAt": moment(60)}}, {"running": {"startedAt": moment(60)}}]
    states[waits] = {"waiting": NO_IMAGE}
    pod["status"]["containerStatuses"] = [
        {"name": name, "image": "train:typo", "state": state}
        for name, state in zip(("prefect-job", "proxy"), states, strict=True)
    ]
    trouble = trouble_of([make_job(60)], [pod], [], {"n1": make_node()}, POLICY, NOW)
    assert trouble.reason is EndReason.REFUSED


def test_a_job_that_completed_and_whose_pod_is_gone_with_its_node_is_done():
    """As a machine goes after its last run while no worker is there: it must not run again."""
    job = make_job(600, finished="Complete")
    job["status"]["completionTime"] = moment(60)
    found = exit_of([job], [], (), is_flow=False)
    assert (found.exit_code, found.is_interruption, found.message) == (0, False, None)
    assert found.ended_at == datetime.fromisoformat(moment(60))


def test_a_gang_of_which_one_pod_runs_waits_for_the_other():
    pod = make_pod("Running")
    pod["status"]["containerStatuses"][0]["state"] = {"running": {"startedAt": moment(3600)}}
    jobs = [make_job(3600), make_job(3600)]
    trouble = trouble_of(jobs, [pod], [], {"n1": make_node()}, POLICY, NOW)
    assert trouble.reason is EndReason.INTERRUPTED


@pytest.mark.parametrize(
    ("terminated", "want"),
    [
        pytest.param(
            {"exitCode": 128, "reason": "StartError", "message": "failed to create containerd "
             'task: runc create failed: exec: "trian": executable file not found in $PATH'}, True,
            id="a program that is not in the image",
        ),
        pytest.param(
            {"exitCode": 128, "reason": "StartError", "message": "runc create failed: "
             "nvidia-container-cli: initialization error: driver not loaded"}, False,
            id="a node without its driver",
        ),
        pytest.param({"exitCode": 127, "reason": "Error"}, False, id="a shell's command"),
        pytest.param({"exitCode": 1, "reason": "Error"}, False, id="it began"),
    ],
)  # fmt: skip
def test_a_container_whose_program_is_missing_fails_alike_each_time(terminated, want):
    pod = make_pod("Failed", terminated=terminated)
    found = exit_of([make_job()], [pod], [], is_flow=True)
    assert found is not None
    assert found.is_permanent is want


REFUSED = {"reason": "FailedCreate", "message": "pods is forbidden: exceeded quota: q"}
CREATED = {"reason": "SuccessfulCreate", "message": "Created pod: gpu-a-x"}
TOO_LARGE = {
    "reason": "FailedCreate",
    "message": "exceeded quota: q, requested: pods=9, used: pods=0, limited: pods=2",
}


@pytest.mark.parametrize(
    ("nodes", "pods", "events", "options", "want"),
    [
        pytest.param(1, [], [REFUSED], {}, True, id="the only pod"),
        pytest.param(2, [make_pod()], [REFUSED], {}, True, id="one of a gang: the other runs"),
        pytest.param(
            2, [make_pod("Pending", node=None)], [REFUSED], {}, True,
            id="one of a gang: the other is on its way to a node",
        ),
        pytest.param(
            2, [make_pod("Pending", node=None)], [REFUSED], {"is_for_new_node": True}, True,
            id="one of a gang that waits for new nodes",
        ),
        pytest.param(
            2, [make_pod(uid="p1"), make_pod(uid="p2")], [REFUSED], {}, False, id="all came after"
        ),
        pytest.param(2, [make_pod()], [CREATED], {}, False, id="nothing was refused"),
        pytest.param(2, [make_pod()], [TOO_LARGE], {}, False, id="waiting would not help"),
        pytest.param(
            2, [make_pod()], [REFUSED], {"is_starting": False}, False, id="its flow has begun"
        ),
        pytest.param(
            2, [make_pod()], [REFUSED], {"created_s_ago": 601}, False,
            id="a pod is replaced long after the start",
        ),
        pytest.param(1, [], [REFUSED], {"created_s_ago": 601}, True, id="nothing of it ever ran"),
    ],
)  # fmt: skip
def test_what_a_quota_refuses_in_part_is_postponed_at_once(nodes, pods, events, options, want):
    """Others can have its GPUs; the pods of a gang that were made wait for the rest in vain."""
    job = make_job(options.pop("created_s_ago", 1))
    job["spec"]["completions"] = nodes
    trouble = trouble_of([job], pods, events, {"n1": make_node()}, POLICY, NOW, **options)
    is_postponed = trouble is not None and trouble.reason is EndReason.POSTPONED
    assert is_postponed is want
    if is_postponed:
        assert "exceeded quota: q" in trouble.message


def test_a_job_that_kueue_has_not_admitted_waits_as_long_as_it_takes():
    job = make_job(9_000)
    job["spec"]["suspend"] = True
    assert trouble_of([job], [], [], {}, POLICY, NOW) is None


UNBOUND = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]}


def bound(seconds_ago):
    pod = make_pod("Pending")
    pod["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": moment(seconds_ago)}
    ]
    return pod


@pytest.mark.parametrize(
    ("pod", "want_message"),
    [
        pytest.param(
            make_pod("Pending", node=None) | {"status": UNBOUND},
            "No node became available within 10m 00s: No node is available for the pod yet",
            id="no node",
        ),
        pytest.param(bound(100), None, id="a node came late: its pod has time to start"),
        pytest.param(
            bound(700), "The pods did not start within 10m 00s: ", id="a node came, and it hangs"
        ),
    ],
)
def test_a_node_that_does_not_come_is_given_up_in_time(pod, want_message):
    trouble = trouble_of(
        [make_job(900)], [pod], [], {"n1": make_node()}, POLICY, NOW, is_for_new_node=True
    )
    assert (trouble is None) == (want_message is None)
    if trouble is not None and want_message is not None:
        assert trouble.message.startswith(want_message)
        assert trouble.reason is EndReason.INTERRUPTED


def test_a_container_that_failed_says_so_with_its_last_lines():
    pod = make_pod("Failed", terminated={"exitCode": 3, "finishedAt": "2026-03-04T11:59:00Z"})
    found = exit_of([make_job()], [pod], ["epoch 1", "no data"], is_flow=False)
    assert found is not None
    assert (found.exit_code, found.is_interruption, found.is_flow) == (3, False, False)
    assert found.message is not None
    assert "exit code 3" in found.message
    assert found.message.endswith("epoch 1\nno data")


def test_a_pod_that_vanished_while_it_ran_was_interrupted():
    found = exit_of([], [make_pod()], [], is_flow=True)
    assert found is not None
    assert found.is_interruption
    assert found.exit_code is None


def test_what_no_worker_saw_is_unknown():
    assert exit_of([], [], [], is_flow=True) is None


def of_rank(rank, phase, code=None):
    ended = None if code is None else {"exitCode": code, "finishedAt": moment(9)}
    return make_pod(phase, uid=f"rank-{rank}", terminated=ended, labels={RANK_LABEL: str(rank)})


@pytest.mark.parametrize(
    ("pods", "is_flow", "want_code", "want_interruption"),
    [
        pytest.param([of_rank(0, "Succeeded", 0)], True, 0, False, id="a flow: the first is done"),
        pytest.param(
            [of_rank(0, "Running"), of_rank(1, "Succeeded", 0)],
            True,
            None,
            True,
            id="a flow: the first was lost, whatever the other did",
        ),
        pytest.param(
            [of_rank(0, "Succeeded", 0), of_rank(1, "Failed", 3)],
            True,
            3,
            False,
            id="a flow: a node that failed before it was over",
        ),
        pytest.param(
            [of_rank(0, "Succeeded", 0), of_rank(1, "Succeeded", 0)],
            False,
            0,
            False,
            id="a container: all have done their part",
        ),
        pytest.param(
            [of_rank(0, "Succeeded", 0), of_rank(1, "Running")],
            False,
            None,
            True,
            id="a container: one was lost, which was to write the model",
        ),
        pytest.param(
            [of_rank(0, "Succeeded", 0), of_rank(1, "Failed", 3)],
            False,
            3,
            False,
            id="a container: any failure is its own",
        ),
    ],
)
def test_a_gang_ends_as_its_nodes_did(pods, is_flow, want_code, want_interruption):
    """Whether its Jobs are still there, one or one for each node, or are gone already."""
    of_each = [make_job() | {"metadata": make_job()["metadata"] | {"name": n}} for n in "ab"]
    for jobs in ([], [make_gang_job()], of_each):
        found = exit_of(jobs, pods, [], is_flow=is_flow, nodes=2)
        assert found is not None
        assert (found.exit_code, found.is_interruption) == (want_code, want_interruption)
