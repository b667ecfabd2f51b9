"""The flow of a gang begins once all pods of the gang exist."""

import anyio
import pytest

from gpu_core.adapters.kubernetes import KubernetesError
from gpu_core.decisions.kubernetes.manifests.names import (
    ATTEMPT_ID_LABEL,
    GANG_ANNOTATION,
    RANK_LABEL,
)
from gpu_core.testing.builders.workloads import with_shape
from gpu_core.worker.attempts.state import StartFailure, StartFailureKind
from gpu_core.worker.kubernetes.cluster.cluster_cache import ClusterCache
from gpu_core.worker.kubernetes.jobs.gang_start import GangStart
from tests.gpu_core.worker.kubernetes.jobs.test_bindings import an_attempt
from tests.gpu_core.worker.kubernetes.objects import make_pod

PATH = "/api/v1/namespaces/ml/pods/pod-0"


class Cluster:
    def __init__(self, error=None):
        self.error = error
        self.patched = []

    async def patch(self, path, body):
        self.patched.append((path, body["metadata"]["annotations"][GANG_ANNOTATION]))
        if self.error:
            raise self.error


def rank(number, **metadata):
    labels = {ATTEMPT_ID_LABEL: "a", RANK_LABEL: str(number)}
    return make_pod(phase="Pending", node=None, uid=f"pod-{number}", labels=labels, **metadata)


def a_gang():
    running = an_attempt("a", "nvidia-a: 0", "nvidia-b: 0")
    running.workload = with_shape(running.workload, nodes=2)
    return running


@pytest.mark.parametrize(
    ("pods", "changes", "want"),
    [
        pytest.param([rank(0), rank(1)], {}, [(PATH, "complete")], id="all pods exist"),
        pytest.param([rank(0)], {}, [], id="a pod is missing"),
        pytest.param([rank(1)], {}, [], id="the first pod is missing"),
        pytest.param(
            [rank(0), rank(1, deletionTimestamp="2026-03-04T12:00:00Z")],
            {},
            [],
            id="a pod is being deleted",
        ),
        pytest.param(
            [rank(0, annotations={GANG_ANNOTATION: "complete"}), rank(1)], {}, [], id="it began"
        ),
        pytest.param(
            [rank(0), rank(1)],
            {"start_failure": StartFailure(StartFailureKind.POSTPONED, "quota")},
            [],
            id="it is postponed",
        ),
    ],
)
def test_the_first_pod_is_annotated_when_the_gang_is_complete(pods, changes, want):
    cluster = Cluster()
    reconciled(cluster, pods, changes)
    assert cluster.patched == want


def reconciled(cluster, pods, changes=None, *, may_act=True):
    view = ClusterCache(cluster, lambda: None)
    for pod in pods:
        view._pod_changed(None, pod)
    running = a_gang()
    for name, value in (changes or {}).items():
        setattr(running, name, value)
    anyio.run(GangStart(cluster, view, lambda: may_act).reconcile, [running])


def test_a_worker_without_the_lease_changes_nothing():
    cluster = Cluster()
    reconciled(cluster, [rank(0), rank(1)], may_act=False)
    assert cluster.patched == []


def test_a_refused_annotation_is_tried_again_in_the_next_cycle(caplog):
    cluster = Cluster(KubernetesError(403, "Forbidden", "no"))
    reconciled(cluster, [rank(0), rank(1)])
    assert "cannot start yet" in caplog.text
