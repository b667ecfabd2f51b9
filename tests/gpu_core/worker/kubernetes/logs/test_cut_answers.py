"""However answers are cut, refused or repeated, each line of a container is reported once."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import anyio
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.worker.kubernetes.cluster.rbac_warnings import MissingRights
from gpu_core.worker.kubernetes.logs import output
from gpu_core.worker.kubernetes.logs.output import ContainerOutput, OutputFollower
from tests.gpu_core.adapters.kubernetes.api_server import serving

EPOCH = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
CONTAINERS = ("a", "b")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(output, "_RETRY_S", 0)


@dataclass(frozen=True)
class Answer:
    """How the server answers one request.

    Attributes:
        prints: How many more lines each container has printed by then.
        ends: Whether both containers have ended by then.
        cut: After which thousandth of the body the connection ends; None: after all of it.
        is_clean: Whether the cut looks like the end of the log: the API server ends its answer
            orderly when its connection to the kubelet breaks.
        status: 200, or the error in place of the log.
    """

    prints: int = 0
    ends: bool = False
    cut: int | None = None
    is_clean: bool = False
    status: int = 200


WHOLE = Answer(prints=100, ends=True)
HELLO, WORLD = "hello " * 10, "world " * 10


class Server:
    """Two containers whose logs are read over one connection, so that they take turns."""

    def __init__(self, texts, is_terminated, answers):
        self._lines = [
            f"{EPOCH + number * timedelta(seconds=0.7):%Y-%m-%dT%H:%M:%S.%f}123Z {text}\n"
            for number, text in enumerate(texts)
        ]
        if texts and not is_terminated:
            self._lines[-1] = self._lines[-1].removesuffix("\n")
        self._answers = list(answers)
        self._printed = 0
        self.has_ended = False

    async def handle(self, request):
        answer = self._answers.pop(0) if self._answers else WHOLE
        self._printed += answer.prints
        self.has_ended |= answer.ends
        if answer.status != 200:
            return web.json_response({"reason": "Later", "message": "no"}, status=answer.status)
        since = request.query.get("sinceTime", "")[:19]
        there = self._lines if self.has_ended else self._lines[: self._printed]
        body = "".join(line for line in there if line[:19] >= since).encode()
        if answer.cut is None:
            return web.Response(body=body)
        sent = body[: len(body) * answer.cut // 1000]
        if answer.is_clean:
            return web.Response(body=sent)
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(sent)
        request.transport.abort()
        return response


def reported_by(server):
    """What is informed of each container, until its follower is done."""
    reported = {name: [] for name in CONTAINERS}

    async def story():
        async with serving(server) as api, anyio.create_task_group() as tasks:
            follower = OutputFollower(api, MissingRights(), connections=1, turn_s=0.0)
            for name in CONTAINERS:
                lines = reported[name]
                followed = ContainerOutput(
                    key=name, namespace="ml", pod=name, container="main",
                    emit=lambda line, lines=lines: lines.append(line.text),
                    is_over=lambda: server.has_ended,
                )  # fmt: skip
                tasks.start_soon(follower.follow, followed)

    anyio.run(story)
    return reported


def both(lines):
    """Each container has these lines."""
    return dict.fromkeys(CONTAINERS, lines)


ANSWERS = st.builds(
    Answer,
    prints=st.integers(0, 3),
    ends=st.sampled_from([False, False, True]),
    cut=st.none() | st.integers(0, 999),
    status=st.sampled_from([200, 200, 200, 503]),
)


@given(
    texts=st.lists(st.sampled_from(["", "a", "ab", HELLO, WORLD]), max_size=8),
    is_terminated=st.booleans(),
    answers=st.lists(ANSWERS, max_size=6),
    clean=st.none() | st.integers(0, 5),
)
def test_each_line_is_logged_once_and_in_order(texts, is_terminated, answers, clean):
    """At most one cut looks like the end of a log; two in a row can look like a whole answer."""
    answers = [
        Answer(a.prints, a.ends, a.cut, number == clean, a.status)
        for number, a in enumerate(answers)
    ]
    reported = reported_by(Server(texts, is_terminated, answers))
    assert reported == both(texts)


@pytest.mark.parametrize(
    ("ends", "cut"),
    [
        pytest.param(True, 500, id="at the end of a line"),
        pytest.param(True, 900, id="within a line"),
        pytest.param(True, 0, id="before the first line"),
        pytest.param(False, 900, id="within a line of a container that still runs"),
    ],
)
def test_a_kubelet_that_goes_away_looks_like_the_end_of_the_log_and_is_not(ends, cut):
    """The API server ends its answer orderly then, so that no error comes with it."""
    answer = Answer(prints=2, ends=ends, cut=cut, is_clean=True)
    server = Server([HELLO, WORLD], True, [answer, answer])
    server.has_ended = ends
    assert reported_by(server) == both([HELLO, WORLD])


def test_a_last_line_without_an_end_is_logged_after_an_answer_without_it():
    """An answer that ends before the line does not say that the line was not there."""
    nothing = Answer(cut=0, is_clean=True)
    server = Server(["last"], False, [Answer(ends=True), Answer(), nothing])
    assert reported_by(server) == both(["last"])


def test_a_last_line_without_an_end_is_logged():
    assert reported_by(Server([HELLO, WORLD], False, [])) == both([HELLO, WORLD])
