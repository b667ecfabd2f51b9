"""When a run that waits is informed again."""

import json
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from uuid import UUID, uuid4

import anyio
import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import SetStateStatus
from prefect.settings import PREFECT_LOGGING_TO_API_ENABLED, temporary_settings
from prefect.states import AwaitingConcurrencySlot, AwaitingRetry, Late, Scheduled

from gpu_core.decisions.costs.mlflow.mlflow_views import MlflowPages
from gpu_core.decisions.costs.reports.holders_table import holder_entry
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.reasons import Explanation, Reason
from gpu_core.testing.builders.attempts import NOON, make_attempt, make_run
from gpu_core.testing.builders.workloads import make_workload
from gpu_core.worker.pending.publisher import (
    Publisher,
    Shown,
    is_news,
    is_shown,
    outlook,
    step,
    waiting_state_name,
)

GPUS, OTHERS = Reason.WAITING_FOR_GPUS, Reason.BEHIND_OTHERS


@pytest.mark.parametrize(
    ("written", "state", "age_s", "want"),
    [
        pytest.param(None, Late(), 0, True, id="it has just come"),
        pytest.param((GPUS, 3), Scheduled(name=GPUS), 3600, False, id="nothing has changed"),
        pytest.param((OTHERS, 3), Scheduled(name=OTHERS), 0, True, id="another reason, at once"),
        pytest.param((GPUS, 4), None, 29, False, id="it has moved up, a moment ago"),
        pytest.param((GPUS, 4), None, 30, True, id="it has moved up, and 30 s have passed"),
        pytest.param((GPUS, 3), None, 3600, False, id="its state is unknown"),
        pytest.param((GPUS, 3), Late(), 29, False, id="it is late, and the queue may be older"),
        pytest.param((GPUS, 3), Late(), 30, True, id="Prefect has written that it is late"),
        pytest.param(
            (GPUS, 3),
            AwaitingConcurrencySlot(message=f"{GPUS}: Waiting for 1 GPU."),
            3600,
            False,
            id="the message has the reason",
        ),
    ],
)
def test_a_new_reason_is_written_at_once_and_a_new_place_now_and_then(written, state, age_s, want):
    explanation = Explanation(workload_id="run", reason=GPUS, summary="", resolution="", position=3)
    last = None if written is None else Shown(*written, NOON)
    assert is_news(explanation, last, state, NOON + timedelta(seconds=age_s)) is want


@pytest.mark.parametrize(
    ("shown_s", "starts_s", "age_s", "want"),
    [
        pytest.param(None, 600, 30, True, id="it becomes known"),
        pytest.param(None, 600, 29, False, id="it becomes known, and a page was just written"),
        pytest.param(300, 600, 60, False, id="it has moved, and the one shown has not passed"),
        pytest.param(60, 600, 60, True, id="the one shown has passed"),
        pytest.param(60, 70, 60, False, id="the one shown has passed, and it is due any moment"),
        pytest.param(60, None, 3600, False, id="it is not known any more"),
    ],
)
def test_an_expected_start_is_written_again_when_it_is_known_or_over(
    shown_s, starts_s, age_s, want
):
    def at(seconds):
        return None if seconds is None else NOON + timedelta(seconds=seconds)

    explanation = Explanation(
        workload_id="run",
        reason=GPUS,
        summary="",
        resolution="",
        position=3,
        expected_start_at=at(starts_s),
    )
    assert is_news(explanation, Shown(GPUS, 3, NOON, at(shown_s)), None, at(age_s)) is want


@pytest.mark.parametrize(
    ("position", "start", "want"),
    [
        pytest.param(0, None, "", id="held"),
        pytest.param(1, None, "Position 1 in the queue.", id="an unknown start"),
        pytest.param(
            *(17, NOON),
            f"Position about 15 in the queue; expected start {NOON:%Y-%m-%d} 12:00 UTC.",
            id="a place in steps, and a start",
        ),
    ],
)
def test_a_page_has_the_place_in_the_queue_and_the_expected_start(position, start, want):
    explanation = Explanation(
        workload_id="run",
        reason=GPUS,
        summary="",
        resolution="",
        position=position,
        expected_start_at=start,
    )
    assert outlook(explanation) == want


def test_places_are_published_in_steps():
    """Exact at the head, where it matters."""
    positions = (0, 1, 5, 6, 9, 10, 24, 26, 49, 50, 120)
    assert [step(position) for position in positions] == [0, 1, 5, 5, 5, 10, 20, 25, 25, 50, 100]


class Artifacts:
    """Keeps the last artifact, and refuses text that no database takes, as PostgreSQL does."""

    def __init__(self, refused="\0"):
        self.tables = {}
        self.keys = {}
        self.descriptions = {}
        self._refused = refused

    @property
    def rows(self):
        return self.tables["gpu-queue-gpu"]

    async def read_artifacts(self, **_):
        return []

    async def update_artifact(self, artifact_id, artifact):
        await self.create_artifact(SimpleNamespace(key=self.keys[artifact_id], **artifact.__dict__))

    async def create_artifact(self, artifact):
        json.dumps(artifact.data, ensure_ascii=False).encode()
        if any(self._refused in str(row.values()) for row in artifact.data):
            raise RuntimeError("HTTP 500")
        self.descriptions[artifact.key] = artifact.description
        self.tables[artifact.key] = artifact.data
        artifact_id = uuid4()
        self.keys[artifact_id] = artifact.key
        return SimpleNamespace(id=artifact_id)


def holder(**fields):
    return holder_entry(make_attempt(**fields), make_run(name="busy"), None, NOON)


def test_the_page_of_the_queue_says_first_who_holds_gpus():
    """And that no run does, so that holders of an earlier worker do not stay."""
    client = Artifacts()
    publisher = Publisher(client, "gpu", None, anyio.Lock())
    anyio.run(publisher.queue, [], {}, NOON, ["Careful."], [holder()])
    assert [row["Run"] for row in client.tables["gpu-holders-gpu"]] == ["busy"]
    careful, held, waiting = (
        client.descriptions["gpu-queue-gpu"].index(text)
        for text in ("Careful.", "[busy](/runs/flow-run/run-1)", "No runs are waiting")
    )
    assert careful < held < waiting
    published(client)
    assert client.tables["gpu-holders-gpu"] == []
    assert "No running flow runs found." in client.descriptions["gpu-queue-gpu"]


@pytest.mark.parametrize(
    ("later_s", "fields", "want"),
    [
        pytest.param(60, {}, False, id="its cost alone has grown"),
        pytest.param(300, {}, True, id="its cost has grown for five minutes"),
        pytest.param(1, {"drain_reason": EndReason.PREEMPTED}, True, id="it is being preempted"),
        pytest.param(1, {"number": 2, "attempt_id": "b"}, True, id="its next attempt"),
    ],
)
def test_who_holds_gpus_is_written_when_it_changes(later_s, fields, want):
    client = Artifacts()
    publisher = Publisher(client, "gpu", None, anyio.Lock())
    anyio.run(publisher.queue, [], {}, NOON, [], [holder()])
    client.tables.clear()
    later = NOON + timedelta(seconds=later_s)
    anyio.run(publisher.queue, [], {}, later, [], [holder(**fields)])
    assert ("gpu-holders-gpu" in client.tables) is want


def published(client, *names, summaries=None):
    publisher = Publisher(client, "gpu", "Waiting", anyio.Lock())
    workloads = {name: make_workload(workload_id=name, name=name) for name in names}
    explanations = [
        Explanation(
            workload_id=name,
            reason=GPUS,
            summary=(summaries or {}).get(name, "Waits."),
            resolution="",
            position=1,
        )
        for name in names
    ]
    demands = {name: SimpleNamespace(workload=workload) for name, workload in workloads.items()}
    anyio.run(publisher.queue, explanations, demands, NOON)
    return client.rows


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param("a \0 b", id="NUL"),
        pytest.param("a \ud800 b", id="half of a character"),
        pytest.param("x" * 1_000_000, id="a million characters"),
        pytest.param("a\nb", id="two lines"),
    ],
)
def test_the_odd_text_of_a_run_leaves_the_queue_readable_for_all(odd):
    rows = published(Artifacts(), "one", "two", summaries={"two": odd})
    assert [row["Run"] for row in rows] == ["one", "two"]
    assert rows[0]["Why"] == "Waits."
    assert len(rows[1]["Why"]) <= 2_000


def test_a_run_that_cannot_be_shown_is_missing_alone():
    class Unreadable(str):
        def isprintable(self):
            raise RuntimeError

    rows = published(Artifacts(), "one", "two", summaries={"two": Unreadable("x")})
    assert [row["Run"] for row in rows] == ["one"]


def test_a_server_that_refuses_a_text_gets_the_queue_without_texts():
    rows = published(Artifacts(refused="café"), "one", "two", summaries={"two": "café"})
    assert [row["Run id"] for row in rows] == ["one", "two"]
    assert [row["Reason"] for row in rows] == [GPUS, GPUS]


def test_the_story_of_a_run_is_looked_for_only_where_it_can_be():
    """The artifact of a run begins with its first attempt; later ones and the link edit it."""
    did = []

    class Client:
        async def read_artifacts(self, **_):
            did.append("read")
            return [SimpleNamespace(id=uuid4())]

        async def create_artifact(self, _artifact):
            did.append("create")
            return SimpleNamespace(id=uuid4())

        async def update_artifact(self, *_):
            did.append("update")

    publisher = Publisher(Client(), "gpu", None, anyio.Lock())
    first, second = (make_attempt(number=number) for number in (1, 2))
    anyio.run(publisher.attempts, str(uuid4()), [first])
    anyio.run(publisher.attempts, str(uuid4()), [first, second])
    assert did == ["create", "read", "update"]

    page = partial(publisher.attempts, mlflow=MlflowPages.of("http://mlflow", "1", "2"))
    anyio.run(page, str(uuid4()), [first])
    assert did == ["create", "read", "update", "read", "update"]


@pytest.mark.parametrize(
    ("fields", "fixed_name", "want"),
    [
        pytest.param({}, None, "WaitingForGpus", id="the reason"),
        pytest.param({"run_count": 1}, None, "WaitingForGpus", id="the reason, after an attempt"),
        pytest.param(
            {"auto_scheduled": True},
            None,
            "AwaitingConcurrencySlot",
            id="Prefect would delete it when its deployment is paused",
        ),
        pytest.param(
            {"auto_scheduled": True, "run_count": 1},
            None,
            "WaitingForGpus",
            id="of a schedule, but it has run",
        ),
        pytest.param({}, "AwaitingGpu", "AwaitingGpu", id="the operator's name"),
    ],
)
def test_the_state_of_a_waiting_run_is_called_what_it_waits_for(fields, fixed_name, want):
    run = FlowRun(flow_id=UUID(int=1), **fields)
    assert waiting_state_name(run, GPUS, fixed_name) == want


@pytest.mark.parametrize(
    ("state", "want"),
    [
        pytest.param(Scheduled(), False, id="it has just come"),
        pytest.param(Late(), False, id="Prefect found it late"),
        pytest.param(Scheduled(name="WaitingForGpus", message="0 of 8."), True, id="by its name"),
        pytest.param(Scheduled(name="BehindOthers"), False, id="another reason"),
        pytest.param(
            AwaitingConcurrencySlot(message="WaitingForGpus: 0 of 8."), True, id="by its message"
        ),
        pytest.param(
            AwaitingRetry(message="Failure 1 of 3. WaitingForGpus: 0 of 8."),
            True,
            id="by its message, after an attempt",
        ),
    ],
)
def test_a_reason_that_a_run_shows_is_not_logged_again(state, want):
    assert is_shown(state, GPUS) is want


class OneRun:
    """A server with one waiting run, which notes who could have the turn while it was asked."""

    def __init__(self, turn, starts_meanwhile):
        self.turn = turn
        self.held = set()
        self.heard = []
        self._starts_meanwhile = starts_meanwhile

    async def read_flow_run(self, flow_run_id):
        self.heard.append(("read", self.turn.locked()))
        if self._starts_meanwhile:
            self.held.add(str(flow_run_id))
        return FlowRun(id=flow_run_id, flow_id=UUID(int=0), state=Scheduled())

    async def set_flow_run_state(self, _flow_run_id, state):
        self.heard.append(("write", self.turn.locked()))
        return SimpleNamespace(status=SetStateStatus.ACCEPT, state=state)

    async def read_flow_run_states(self, _flow_run_id):
        self.heard.append(("read states", self.turn.locked()))
        return []


@pytest.mark.parametrize(
    ("starts_meanwhile", "want"),
    [
        pytest.param(
            False, [("read", False), ("write", True), ("read states", False)], id="it waits"
        ),
        pytest.param(True, [("read", False)], id="it starts after it was read"),
    ],
)
def test_cycle_and_starts_wait_for_the_write_of_a_reason_and_not_for_its_reads(
    starts_meanwhile, want
):
    """A server that many use takes seconds for each request."""
    run = FlowRun(id=uuid4(), flow_id=UUID(int=0), name="run")
    explanation = Explanation(
        workload_id=str(run.id), reason=GPUS, summary="Waits.", resolution="", position=1
    )
    demand = SimpleNamespace(flow_run=run, flow_name="train")

    async def story():
        turn = anyio.Lock()
        server = OneRun(turn, starts_meanwhile)
        await Publisher(server, "gpu", None, turn).waiting(
            [explanation],
            {str(run.id): demand},
            {},
            NOON,
            limit=10,
            is_held=lambda flow_run_id: flow_run_id in server.held,
        )
        return server.heard

    with temporary_settings({PREFECT_LOGGING_TO_API_ENABLED: False}):
        assert anyio.run(story) == want


def test_two_cycles_that_publish_at_once_write_a_reason_once():
    """The second begins while the first waits for the server."""
    run = FlowRun(id=uuid4(), flow_id=UUID(int=0), name="run")
    explanation = Explanation(
        workload_id=str(run.id), reason=GPUS, summary="Waits.", resolution="", position=1
    )
    demand = SimpleNamespace(flow_run=run, flow_name="train")

    async def story():
        turn = anyio.Lock()
        server = OneRun(turn, starts_meanwhile=False)
        publisher = Publisher(server, "gpu", None, turn)

        async def publish():
            demands, stories = {str(run.id): demand}, {}
            await publisher.waiting(
                [explanation], demands, stories, NOON, limit=10, is_held=lambda _id: False
            )

        async with turn, anyio.create_task_group() as cycles:
            cycles.start_soon(publish)
            cycles.start_soon(publish)
            await anyio.wait_all_tasks_blocked()
            turn.release()
            await anyio.wait_all_tasks_blocked()
            await turn.acquire()
        return server.heard

    with temporary_settings({PREFECT_LOGGING_TO_API_ENABLED: False}):
        heard = anyio.run(story)
    assert [what for what, _ in heard] == ["read", "write", "read states"]
