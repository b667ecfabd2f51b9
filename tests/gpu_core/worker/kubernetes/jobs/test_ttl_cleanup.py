"""Which objects of operators go, and when they are looked at."""

from datetime import timedelta

import anyio
import pytest

from gpu_core.adapters.kubernetes import KubernetesError
from gpu_core.decisions.kubernetes.manifests.names import ATTEMPT_ID_LABEL, POOL_LABEL
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from gpu_core.worker.kubernetes.cluster.rbac_warnings import MissingRights
from gpu_core.worker.kubernetes.jobs.operator_jobs import OperatorJobs
from gpu_core.worker.kubernetes.jobs.ttl_cleanup import TtlCleanup
from tests.gpu_core.worker.kubernetes.objects import NOW, moment

POLICY = KubernetesPolicy(kept_after_end="1m")


class Api:
    """Deletes what it is asked to, or refuses."""

    def __init__(self, error=None):
        self.error = error
        self.deleted = []

    async def delete(self, path):
        if self.error is not None:
            raise self.error
        self.deleted.append(path.rsplit("/", 1)[1])


def ray_job(name, ended_s_ago=3600, pool="gpu", **metadata):
    labels = {ATTEMPT_ID_LABEL: name, POOL_LABEL: pool}
    return {
        "kind": "RayJob",
        "metadata": {"name": name, "namespace": "ml", "labels": labels, **metadata},
        "status": {
            "jobDeploymentStatus": "Complete",
            "jobStatus": "SUCCEEDED",
            "endTime": moment(ended_s_ago),
        },
    }


def finished_of(api, items, may_act=True):
    custom_jobs = OperatorJobs(api, lambda: None)
    for item in items:
        custom_jobs._changed(None, item)
    return TtlCleanup(api, custom_jobs, "gpu", lambda: may_act, MissingRights()), custom_jobs


@pytest.mark.parametrize(
    ("item", "want"),
    [
        pytest.param(ray_job("a"), ["a"], id="long over"),
        pytest.param(ray_job("a", ended_s_ago=59), [], id="for less than a minute"),
        pytest.param(ray_job("a", pool="other"), [], id="another pool's, whose worker does it"),
        pytest.param(ray_job("open"), [], id="its attempt is still to be settled"),
        pytest.param(ray_job("a", deletionTimestamp=moment(1)), [], id="it is going already"),
    ],
)
def test_what_has_stayed_long_enough_goes(item, want):
    api = Api()
    finished, custom_jobs = finished_of(api, [item])
    anyio.run(finished.clear, {"open"}, POLICY, NOW)
    assert api.deleted == want
    custom_jobs._changed(item, None)
    # What the end of a settled attempt was need not be remembered for ever.
    assert (custom_jobs.last_of(item["metadata"]["name"]) is None) is bool(want)


def test_a_worker_that_stands_by_deletes_nothing():
    api = Api()
    finished, _ = finished_of(api, [ray_job("a")], may_act=False)
    anyio.run(finished.clear, (), POLICY, NOW)
    assert api.deleted == []


def test_many_go_a_few_at_a_time_and_not_in_every_cycle(monkeypatch):
    api = Api()
    finished, custom_jobs = finished_of(api, [ray_job(f"job-{n}") for n in range(30)])
    clock_s = iter([1000, 1059, 1060])
    monkeypatch.setattr(anyio, "current_time", lambda: next(clock_s))

    async def story():
        reported = []
        for _ in range(3):
            await finished.clear((), POLICY, NOW + timedelta(minutes=1))
            for item in custom_jobs.items:
                if item["metadata"]["name"] in api.deleted:
                    custom_jobs._changed(item, None)
            reported.append(len(api.deleted))
        return reported

    assert anyio.run(story) == [20, 20, 30]


def test_what_cannot_be_deleted_stays_and_ends_nothing():
    error = KubernetesError(403, "Forbidden", "no")
    finished, custom_jobs = finished_of(Api(error), [ray_job("a"), ray_job("b")])
    anyio.run(finished.clear, (), POLICY, NOW)
    assert len(custom_jobs.items) == 2
