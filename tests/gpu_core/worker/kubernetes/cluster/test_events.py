"""How often the events of pods that do not run yet are asked for, and what if they may not be."""

import logging
from types import SimpleNamespace

import anyio
import pytest

from gpu_core.adapters.kubernetes import KubernetesError
from gpu_core.testing.builders.attempts import make_attempt, make_run
from gpu_core.worker.kubernetes.cluster import events as events_module
from gpu_core.worker.kubernetes.cluster.events import PodEvents
from gpu_core.worker.kubernetes.cluster.rbac_warnings import MissingRights
from tests.gpu_core.worker.kubernetes.objects import make_job, make_pod

ATTEMPTS = [
    SimpleNamespace(attempt=make_attempt(f"run-{n}"), record=make_run(f"run-{n}"), awaited_kinds=())
    for n in range(100)
]
VIEW = SimpleNamespace(
    pods_of=lambda _: [],
    jobs_of=lambda _: [make_job()],
    custom_jobs=SimpleNamespace(of=lambda _: None),
)


class Api:
    def __init__(self):
        self.asked = 0

    async def get(self, _path, _query):
        self.asked += 1
        return {"items": []}


@pytest.mark.parametrize(
    ("looks_at_s", "want"),
    [
        pytest.param([100, 101], 0, id="they have only begun to start"),
        pytest.param([100, 110], 10, id="they take their time"),
        pytest.param([100, 110, 110.1, 110.2], 10, id="cycles follow each other"),
        pytest.param([100, 110, 111, 112], 18, id="a second later"),
        pytest.param([100, 110, 150], 20, id="much later"),
    ],
)
def test_a_hundred_that_start_together_are_not_all_asked_for_at_once(monkeypatch, looks_at_s, want):
    api, clock_s = Api(), iter(looks_at_s)
    events = PodEvents(api, VIEW, MissingRights())
    monkeypatch.setattr(anyio, "current_time", lambda: next(clock_s))

    async def story():
        for _ in looks_at_s:
            await events.refresh(ATTEMPTS)

    anyio.run(story)
    assert api.asked == want


class Refusing:
    """Lets no client list events."""

    async def get(self, _path, _query):
        raise KubernetesError(
            403,
            "Forbidden",
            'events is forbidden: User "system:serviceaccount:ml:gpu-worker" cannot list resource '
            '"events" in API group "" in the namespace "ml"',
        )


def test_a_right_that_is_missing_is_warned_of_once(monkeypatch, caplog):
    """Runs continue without it; but an operator should know why their logs say nothing."""
    clock_s = iter([100, 110, 150])
    monkeypatch.setattr(anyio, "current_time", lambda: next(clock_s))
    monkeypatch.setattr(logging.getLogger("prefect"), "propagate", True)
    events = PodEvents(Refusing(), VIEW, MissingRights())

    async def story():
        for _ in range(3):
            await events.refresh(ATTEMPTS)

    with caplog.at_level(logging.WARNING):
        anyio.run(story)
    assert [record.message for record in caplog.records] == [
        "The worker is not permitted to list events in namespace 'ml': pod startup problems "
        "are not reported in the logs of runs. The permission is granted by the Helm chart "
        "infra/helm/prefect-gpu."
    ]


def named(name, message):
    return {
        "metadata": {"creationTimestamp": "2026-03-04T12:00:00Z"},
        "involvedObject": {"name": name},
        "type": "Warning",
        "reason": "FailedCreate",
        "message": message,
    }


class Reporting:
    """Has events of objects that an operator made, and of others."""

    async def get(self, _path, query):
        if query["fieldSelector"] != "type=Warning":
            return {"items": []}
        return {
            "items": [
                named("gpu-a-node-0", "exceeded quota: q"),
                named("gpu-a", "of itself"),
                named("gpu-ab-node-0", "of another run"),
                # As the API server shows what was written with reportingController.
                named("gpu-a", "by a worker") | {"reportingComponent": "prefect-gpu"},
            ]
        }


@pytest.mark.parametrize(
    ("pods", "completions", "want"),
    [
        pytest.param([], 1, 1, id="no pod"),
        pytest.param([make_pod("Pending")], 1, 1, id="it is pending"),
        pytest.param([make_pod()], 1, 0, id="it runs"),
        pytest.param([make_pod()], 2, 1, id="another one of its gang is missing"),
    ],
)
def test_events_are_asked_for_as_long_as_a_pod_is_missing(monkeypatch, pods, completions, want):
    job = make_job()
    job["spec"]["completions"] = completions
    view = SimpleNamespace(
        pods_of=lambda _: pods,
        jobs_of=lambda _: [job],
        custom_jobs=SimpleNamespace(of=lambda _: None),
    )
    api, clock_s = Api(), iter([100, 110])
    events = PodEvents(api, view, MissingRights())
    monkeypatch.setattr(anyio, "current_time", lambda: next(clock_s))

    async def story():
        for _ in range(2):
            await events.refresh(ATTEMPTS[:1])

    anyio.run(story)
    assert (api.asked > 0) is bool(want)


def test_what_an_operators_objects_say_is_known_of_their_run(monkeypatch):
    """The Jobs of a JobSet and the pods of a RayCluster have our name in theirs.

    What a worker says itself is in the run's log before.
    """
    item = {"kind": "TrainJob", "metadata": {"name": "gpu-a", "namespace": "ml", "uid": "u"}}
    view = SimpleNamespace(
        pods_of=lambda _: [],
        jobs_of=lambda _: [],
        custom_jobs=SimpleNamespace(of=lambda _: item),
    )
    clock_s = iter([100, 110])
    # The log of a run goes to Prefect's API, which is not there.
    monkeypatch.setattr(events_module, "run_log", lambda _: logging.getLogger("test.events"))
    events = PodEvents(Reporting(), view, MissingRights())
    monkeypatch.setattr(anyio, "current_time", lambda: next(clock_s))

    async def story():
        for _ in range(2):
            await events.refresh(ATTEMPTS[:1])

    anyio.run(story)
    found = events.of(ATTEMPTS[0].attempt.attempt_id)
    assert [event["message"] for event in found] == ["exceeded quota: q", "of itself"]
