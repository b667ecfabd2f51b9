"""Events on the objects that run attempts: what the API server gets, and what if it takes none."""

import logging
from types import SimpleNamespace

import anyio
import pytest
from aiohttp import web

from gpu_core.decisions.kubernetes.status.job_events import event_manifest, reference_to
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.reasons import Reason
from gpu_core.worker.kubernetes.cluster.event_recorder import EventRecorder
from gpu_core.worker.kubernetes.cluster.rbac_warnings import MissingRights
from tests.gpu_core.adapters.kubernetes.api_server import serving
from tests.gpu_core.worker.kubernetes.objects import NOW, make_job

PATH = "/apis/events.k8s.io/v1/namespaces/ml/events"
CREATED = {**make_job(), "kind": "Job", "apiVersion": "batch/v1"}
RAY_JOB = {"kind": "RayJob", "metadata": {"name": "gpu-r", "namespace": "ml", "uid": "ray-1"}}
NO_RIGHT = (
    'events.events.k8s.io is forbidden: User "system:serviceaccount:ml:gpu-worker" cannot create '
    'resource "events" in API group "events.k8s.io" in the namespace "ml"'
)
ENDING = (
    'events.events.k8s.io "gpu-a.x" is forbidden: unable to create new content in namespace ml '
    "because it is being terminated"
)
NO_ROOM = 'events.events.k8s.io "gpu-a.x" is forbidden: exceeded quota: q, requested: count/e=1'


class Api:
    """Takes Events, or refuses all of them with these words."""

    def __init__(self, refusal=None):
        self.refusal = refusal
        self.events = []
        self.wanted = 0

    async def handle(self, request):
        assert (request.method, request.path) == ("POST", PATH)
        self.wanted -= 1
        if not self.wanted:
            self.is_done.set()
        if self.refusal is not None:
            body = {"reason": "Forbidden", "message": self.refusal}
            return web.json_response(body, status=403)
        self.events.append(await request.json())
        return web.json_response(self.events[-1], status=201)


def view_of(jobs=(), custom_job=None):
    """What the watches have reported every attempt."""
    return SimpleNamespace(
        jobs_of=lambda _: list(jobs), custom_jobs=SimpleNamespace(of=lambda _: custom_job)
    )


def reported(api, story, view=None, want=0):
    """Let the recorder run until the API server was asked this often; the Events that it took."""

    async def scenario():
        api.wanted, api.is_done = want, anyio.Event()
        async with serving(api) as client, anyio.create_task_group() as tasks:
            recorder = EventRecorder(client, view or view_of(), MissingRights())
            story(recorder)
            tasks.start_soon(recorder.run)
            await api.is_done.wait()
            tasks.cancel_scope.cancel()

    anyio.run(scenario)
    return api.events


def test_a_start_and_an_end_are_recorded_in_order_and_once():
    def story(recorder):
        recorder.created("a", CREATED)
        recorder.record("a", Reason.STARTING, "Attempt 1 starts on 8 × a100-80gb of n1.")
        recorder.record("a", Reason.STARTING, "Attempt 1 starts on 8 × a100-80gb of n1.")
        recorder.record("a", EndReason.INTERRUPTED, "Attempt 1 ended.")

    first, second = reported(Api(), story, want=2)

    assert (first["type"], first["reason"]) == ("Normal", "Starting")
    assert (second["type"], second["reason"]) == ("Warning", "Interrupted")
    assert first["note"] == "Attempt 1 starts on 8 × a100-80gb of n1."
    assert first["metadata"] == {"generateName": "gpu-a-", "namespace": "ml"}
    assert first["regarding"] == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "namespace": "ml",
        "name": "gpu-a",
        "uid": "job-1",
    }


@pytest.mark.parametrize(
    ("view", "want"),
    [
        pytest.param(view_of([make_job()]), ("Job", "gpu-a"), id="a Job of an earlier worker"),
        pytest.param(view_of((), RAY_JOB), ("RayJob", "gpu-r"), id="an operator's object"),
    ],
)
def test_what_an_earlier_worker_made_is_recorded_too(view, want):
    (event,) = reported(Api(), lambda r: r.record("a", EndReason.FAILED, "It ended."), view, want=1)

    assert (event["regarding"]["kind"], event["regarding"]["name"]) == want


def test_one_attempt_and_one_queue_have_a_bound():
    def story(recorder):
        recorder.record("gone", EndReason.CRASHED, "Nothing runs it: no Event.")
        for attempt in range(60):
            recorder.created(f"a-{attempt}", CREATED)
            for number in range(30):
                recorder.record(f"a-{attempt}", EndReason.PREEMPTED, f"{attempt} {number}")

    events = reported(Api(), story, want=1000)

    # 60 × 25 fit into no queue of 1,000: the newest are reported.
    assert len(events) == 1000
    assert (events[0]["note"], events[-1]["note"]) == ("20 0", "59 24")


@pytest.mark.parametrize(
    ("refusal", "want_warnings"),
    [
        pytest.param(NO_RIGHT, 1, id="a missing right is said once"),
        pytest.param(ENDING, 0, id="the namespace is being deleted"),
        pytest.param(NO_ROOM, 0, id="its quota is full"),
    ],
)
def test_events_that_are_refused_are_lost_without_harm(refusal, want_warnings, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("prefect"), "propagate", True)

    def story(recorder):
        recorder.created("a", CREATED)
        for number in range(3):
            recorder.record("a", EndReason.COMPLETED, f"{number}")

    assert reported(Api(refusal), story, want=3) == []
    warnings = [found.getMessage() for found in caplog.records if found.levelno > logging.INFO]
    assert len(warnings) == want_warnings
    if warnings:
        assert "is not permitted to create events.events.k8s.io in namespace 'ml'" in warnings[0]


@pytest.mark.parametrize(
    "note",
    [
        pytest.param("n" * 2000, id="letters"),
        pytest.param("×" * 2000, id="letters of two bytes"),
        pytest.param("a" + "€" * 2000, id="letters of three bytes"),
    ],
)
def test_a_note_is_cut_to_what_an_event_holds(note):
    regarding = reference_to(make_job(), "Job", "batch/v1")
    event = event_manifest(regarding, Reason.STARTING, note, instance="h" * 300, now=NOW)

    assert 1020 <= len(event["note"].encode()) <= 1024
    assert event["note"].endswith("…")
    assert len(event["reportingInstance"]) == 128
    assert event["eventTime"] == "2026-03-04T12:00:00.000000Z"


@pytest.mark.parametrize("reason", list(EndReason))
def test_every_end_has_a_type_that_the_api_knows(reason):
    regarding = reference_to(make_job(), "Job", "batch/v1")
    event = event_manifest(regarding, reason, "It ended.", instance="w", now=NOW)

    assert event["type"] in ("Normal", "Warning")
    assert event["reason"] == reason.value
    assert event["type"] == "Normal" or reason not in (EndReason.COMPLETED, EndReason.PREEMPTED)
