"""What runs for a run of ours, and no open attempt answers for."""

from types import SimpleNamespace
from uuid import UUID

import anyio
import pytest
from prefect.exceptions import ObjectNotFound

from gpu_core.decisions.kubernetes.manifests.names import (
    ATTEMPT_ID_LABEL,
    FLOW_RUN_LABEL,
    POOL_LABEL,
)
from gpu_core.worker.kubernetes.cluster.cluster_cache import ClusterCache
from gpu_core.worker.kubernetes.jobs.orphan_cleanup import OrphanCleanup
from tests.gpu_core.worker.kubernetes.objects import make_job, make_pod

RUN = "11111111-1111-1111-1111-111111111111"
LABELS = {ATTEMPT_ID_LABEL: "a", FLOW_RUN_LABEL: RUN, POOL_LABEL: "gpus"}


class Prefect:
    """Has this run in this pool, or none."""

    def __init__(self, pool):
        self.pool = pool

    async def read_flow_run(self, flow_run_id):
        assert flow_run_id == UUID(RUN)
        if self.pool is None:
            raise ObjectNotFound(Exception(flow_run_id))
        return SimpleNamespace(name="run", work_pool_name=self.pool)


class Objects:
    """Writes down what is taken away."""

    def __init__(self):
        self.deleted = []

    async def delete(self, attempt_id, _fenced, *, grace_s):
        assert grace_s is None, "it may have something to save"
        self.deleted.append(attempt_id)


def job(**more):
    item = make_job(**more)
    item["metadata"]["labels"] = LABELS
    return item


def pod(phase="Running", **labels):
    return make_pod(phase, labels=LABELS | labels)


@pytest.mark.parametrize(
    ("jobs", "pods", "pool", "open_attempts", "want"),
    [
        pytest.param([job()], [], "gpus", (), True, id="a Job that will have pods"),
        pytest.param([], [pod()], "gpus", (), True, id="a pod that runs"),
        pytest.param([job()], [pod()], "gpus", ("a",), False, id="its attempt is open"),
        pytest.param(
            [job(finished="Complete")], [pod("Succeeded")], "gpus", (), False, id="it is kept"
        ),
        pytest.param([job()], [], None, (), False, id="another server's run"),
        pytest.param([job()], [], "other", (), False, id="it went to another pool"),
        pytest.param([], [pod(**{POOL_LABEL: "other"})], "gpus", (), False, id="another pool's"),
    ],
)
def test_it_is_ended_when_it_was_there_a_minute_before(
    monkeypatch, jobs, pods, pool, open_attempts, want
):
    clock = SimpleNamespace(now_s=0.0)
    monkeypatch.setattr(anyio, "current_time", lambda: clock.now_s)
    view, objects = ClusterCache(SimpleNamespace(), lambda: None), Objects()
    for item in jobs:
        view._job_changed(None, item)
    for item in pods:
        view._pod_changed(None, item)
    orphans = OrphanCleanup(view, objects, Prefect(pool), "gpus", lambda: True)
    deleted = []
    for clock.now_s in (0.0, 59.0, 60.0):
        anyio.run(orphans.end, open_attempts, ())
        deleted.append(list(objects.deleted))
    assert deleted == [[], [], ["a"] if want else []]


def test_who_does_not_act_ends_nothing():
    view, objects = ClusterCache(SimpleNamespace(), lambda: None), Objects()
    view._pod_changed(None, pod())
    orphans = OrphanCleanup(view, objects, Prefect("gpus"), "gpus", lambda: False)
    for _ in range(2):
        anyio.run(orphans.end, (), ())
    assert not objects.deleted


def test_another_installation_with_a_pool_of_our_name_is_logged_once(monkeypatch, caplog):
    """Its pods count as ours, which is free: both plan with the same GPUs."""
    clock = SimpleNamespace(now_s=0.0)
    monkeypatch.setattr(anyio, "current_time", lambda: clock.now_s)
    view, objects = ClusterCache(SimpleNamespace(), lambda: None), Objects()
    view._pod_changed(None, pod())
    orphans = OrphanCleanup(view, objects, Prefect(None), "gpus", lambda: True)
    with caplog.at_level("WARNING", logger="prefect.gpu.orphans"):
        for clock.now_s in (0.0, 60.0, 120.0):
            anyio.run(orphans.end, (), ())
    (reported,) = caplog.messages
    assert reported.startswith("pod-1 in namespace ml belongs to a pool that is also named 'gpus'")
    assert objects.deleted == []
