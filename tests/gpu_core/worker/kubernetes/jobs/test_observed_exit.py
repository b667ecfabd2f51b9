"""How an attempt ended, by what was seen of its pods."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import anyio
import pytest

from gpu_core.decisions.kubernetes.manifests.names import ATTEMPT_ID_LABEL
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.testing.builders.attempts import NOON
from gpu_core.testing.builders.workloads import with_shape
from gpu_core.worker.attempts.state import StartFailure, StartFailureKind
from tests.gpu_core.worker.kubernetes.objects import NOW, make_job, make_node, make_pod, moment
from tests.gpu_core.worker.kubernetes.of_cluster import of_cluster, of_rank, running


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
        assert ("the gang was terminated because node n2 was lost" in (found.message or "")) is want

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


def _of_unnoted_gang(*pods, jobs=(), ended_before=False):
    """How did a gang of two nodes end whose creation was not noted, and which was deleted?"""
    shares = tuple(NodeShare(node=node, gpu_ids=("0",)) for node in ("n1", "n2"))

    async def scenario():
        infrastructure = of_cluster(SimpleNamespace())
        attempt = running(attempt_id="a", shares=shares, started_at=None)
        attempt.workload = with_shape(attempt.workload, nodes=2)
        for job in jobs:
            infrastructure._view._job_changed(None, job)
        for pod in pods:
            infrastructure._view._pod_changed(None, pod)
        if ended_before:
            infrastructure._causes.note("a")
        for pod in pods:
            infrastructure._view._pod_changed(pod, None)
        return await infrastructure.exit(attempt)

    return anyio.run(scenario)


def _deleted(pod):
    pod["metadata"]["deletionTimestamp"] = moment(0)
    return pod


@pytest.mark.parametrize("first", [of_rank(0, "Running"), _deleted(of_rank(0, "Failed", 143))])
def test_a_gang_of_which_a_pod_was_never_there_has_not_worked(first):
    """The worker was killed while it created the gang, of which a quota refuses a pod."""
    assert _of_unnoted_gang(first) is None


@pytest.mark.parametrize(("nodes", "want"), [(1, ["a"]), (2, [])])
def test_a_gang_that_has_not_worked_is_not_reported_as_running(nodes, want):
    """Prefect counts each Running as a run, and against its retries."""
    reported = []

    async def report_running(attempt):
        reported.append(attempt.attempt.attempt_id)

    infrastructure = of_cluster(SimpleNamespace())
    infrastructure._output.containers = SimpleNamespace(report_running=report_running)
    shares = tuple(NodeShare(node=f"n{number}", gpu_ids=("0",)) for number in range(nodes))
    attempt = running(attempt_id="a", shares=shares, started_at=None)
    attempt.workload = with_shape(attempt.workload, nodes=nodes)
    attempt.variables = {"container_command": "true", "framework": "torchrun"}
    infrastructure._view._pod_changed(None, of_rank(0, "Running"))
    anyio.run(infrastructure.report_start, attempt)
    assert reported == want


def test_a_gang_whose_jobs_are_complete_is_done_also_where_a_pod_is_gone():
    """Its worker was killed as it created the gang, which ran to its end without a worker."""
    jobs = [make_job(600, finished="Complete") for _ in range(2)]
    for rank, job in enumerate(jobs):
        job["metadata"] |= {"uid": f"job-{rank}", "labels": {ATTEMPT_ID_LABEL: "a"}}
    found = _of_unnoted_gang(of_rank(0, "Succeeded", 0), jobs=jobs)
    assert (found.exit_code, found.message) == (0, None)


def test_the_exit_code_of_a_deletion_by_the_worker_is_not_the_run_s():
    found = _of_unnoted_gang(*(_deleted(of_rank(rank, "Failed", 143)) for rank in (0, 1)))
    assert (found.exit_code, found.is_interruption) == (None, True)
    assert found.message.startswith("The worker or the API server stopped")


@pytest.mark.parametrize(("phase", "code"), [("Failed", 3), ("Succeeded", 0)])
def test_a_gang_that_ended_before_it_was_deleted_ended_by_itself(phase, code):
    pods = [of_rank(rank, phase, code) for rank in (0, 1)]
    found = _of_unnoted_gang(*pods, ended_before=True)
    assert (found.exit_code, found.is_interruption) == (code, False)


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
    ("exit_code", "is_deleted_before", "want"),
    [
        pytest.param(0, False, (0, False, None), id="it completed"),
        pytest.param(3, False, (3, False, "The container failed"), id="it failed"),
        pytest.param(
            1,
            True,
            (1, True, "The pod was deleted by a user or forcibly by a provisioner"),
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
