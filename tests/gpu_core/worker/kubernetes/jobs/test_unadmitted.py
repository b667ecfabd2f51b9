"""Of an attempt that Kueue has not admitted nothing is on a node: it holds no GPUs."""

from types import SimpleNamespace

import pytest

from gpu_core.decisions.kubernetes.manifests.names import ATTEMPT_ID_LABEL
from gpu_core.worker.kubernetes.cluster.cluster_cache import ClusterCache
from gpu_core.worker.kubernetes.jobs.unadmitted import UnadmittedAttempts
from tests.gpu_core.worker.kubernetes.objects import make_job, make_pod

LABELS = {ATTEMPT_ID_LABEL: "a"}


def a_job(*, suspend):
    job = make_job()
    job["metadata"]["labels"] = LABELS
    job["spec"]["suspend"] = suspend
    return job


def a_pod(node):
    return make_pod(phase="Running" if node else "Pending", node=node, labels=LABELS)


def job(*, suspend):
    return lambda view: view._job_changed(None, a_job(suspend=suspend))


def pod(node):
    return lambda view: view._pod_changed(None, a_pod(node))


def without_job(view):
    view._job_changed(a_job(suspend=True), None)


def without_pod(view):
    view._pod_changed(a_pod("n1"), None)


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param([job(suspend=True)], True, id="Kueue has not admitted it"),
        pytest.param([job(suspend=True), without_job], True, id="and its Job is deleted"),
        pytest.param([job(suspend=False), pod(None)], True, id="admitted, and on no node yet"),
        pytest.param([job(suspend=False), pod("n1")], False, id="on a node"),
        pytest.param(
            [job(suspend=True), pod("n1")], False, id="first in the queue, then on a node"
        ),
        pytest.param([pod("n1"), without_pod], False, id="it was on a node"),
        pytest.param(
            [pod("n1"), without_pod, job(suspend=True)], False, id="Kueue took it off its node"
        ),
        pytest.param([job(suspend=False)], False, id="its pods are not known"),
        pytest.param([], False, id="nothing is known"),
    ],
)
def test_an_attempt_is_unadmitted_until_a_pod_is_on_a_node(changes, want):
    view = ClusterCache(SimpleNamespace(), lambda: None)
    unadmitted = UnadmittedAttempts(view)
    for change in changes:
        change(view)
        unadmitted.observe("a")
    assert unadmitted.has("a") is want


def test_a_settled_attempt_is_forgotten():
    view = ClusterCache(SimpleNamespace(), lambda: None)
    unadmitted = UnadmittedAttempts(view)
    job(suspend=True)(view)
    unadmitted.observe("a")
    without_job(view)
    unadmitted.forget("a")
    assert not unadmitted.has("a")
