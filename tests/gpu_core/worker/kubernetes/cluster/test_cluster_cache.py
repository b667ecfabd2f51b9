"""What of a cluster wakes the worker's cycle."""

import pytest

from gpu_core.decisions.kubernetes.manifests.names import ATTEMPT_ID_LABEL
from gpu_core.worker.kubernetes.cluster.cluster_cache import ClusterCache
from tests.gpu_core.worker.kubernetes.objects import make_job, make_node, make_pod, moment

LABELS = {ATTEMPT_ID_LABEL: "run-1-1"}


def job(deleted_at=None, active=None, **fields):
    made = make_job(**fields)
    made["metadata"] |= {
        "labels": LABELS,
        **({"deletionTimestamp": deleted_at} if deleted_at else {}),
    }
    made["status"] |= {"active": active}
    return made


def pod(**fields):
    return make_pod(labels=LABELS, **fields)


NEW_POD = pod(phase="Pending", node=None)


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param(None, job(), False, id="the Job that a cycle has asked for"),
        pytest.param(job(), job(active=1), False, id="it has a pod"),
        pytest.param(job(), job(finished="Failed"), True, id="it failed"),
        pytest.param(job(), job(deleted_at=moment(0)), True, id="a user deletes it"),
        pytest.param(job(), None, True, id="it is gone"),
        pytest.param(None, job(finished="Complete"), True, id="seen only when it was over"),
        pytest.param(None, NEW_POD, False, id="the Job's pod"),
        pytest.param(NEW_POD, pod(phase="Pending"), True, id="it has a node"),
        pytest.param(pod(phase="Pending"), pod(), True, id="it runs"),
        pytest.param(pod(), pod(phase="Failed"), True, id="the pod ended"),
        pytest.param(None, pod(), True, id="a pod seen only when it ran"),
        pytest.param(None, pod(phase="Failed"), True, id="a pod seen only when it was over"),
        pytest.param(pod(), None, True, id="the pod is gone"),
    ],
)
def test_what_is_news(before, after, want):
    """That what was created is there is nothing new; ends and nodes do."""
    woken = []
    view = ClusterCache(None, lambda: woken.append(True))
    is_pod = "containers" in (after or before)["spec"]
    (view._pod_changed if is_pod else view._job_changed)(before, after)
    assert bool(woken) is want


@pytest.mark.parametrize(
    ("kept", "is_gone", "want"),
    [
        pytest.param(["run-1-1"], True, ["Failed"], id="its end is still to be judged"),
        pytest.param([], False, ["Failed"], id="it is settled, but still there"),
        pytest.param([], True, [], id="it is settled and gone"),
    ],
)
def test_how_pods_ended_is_remembered_until_their_attempt_is_settled(kept, is_gone, want):
    """Otherwise a worker would grow with every run that it has ever started."""
    view, ended = ClusterCache(None, lambda: None), pod(phase="Failed")
    view._pod_changed(pod(), ended)
    if is_gone:
        view._pod_changed(ended, None)
    view.keep(kept)
    assert [found["status"]["phase"] for found in view.last_pods_of("run-1-1")] == want


def test_a_node_that_is_gone_is_remembered_while_a_pod_may_still_be_seen_on_it():
    """And a cluster whose nodes come and go for months costs no more memory than for a day."""
    view = ClusterCache(None, lambda: None)
    view._pod_changed(None, pod(node="n0"))
    for number in range(1_500):
        node = make_node(f"n{number}")
        view._node_changed(None, node)
        view._node_changed(node, None)
    view.keep({"run-1-1"})
    assert len(view.gone_nodes) == 1_000
    assert {"n0", "n1499"} < view.gone_nodes.keys()
    view._node_changed(None, make_node("n0"))
    assert "n0" not in view.gone_nodes
