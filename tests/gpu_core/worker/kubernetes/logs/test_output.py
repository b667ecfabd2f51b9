"""The output of many containers over few connections: every line once, in its order."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import anyio
import anyio.lowlevel
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.worker.kubernetes.cluster.rbac_warnings import MissingRights
from gpu_core.worker.kubernetes.logs.connection_turns import ConnectionTurns
from gpu_core.worker.kubernetes.logs.log_position import OVERLAP, LogLine, LogPosition
from gpu_core.worker.kubernetes.logs.output import ContainerOutput, OutputFollower
from tests.gpu_core.adapters.kubernetes.api_server import serving

EPOCH = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def stamped(at_ns, text):
    """A line as the kubelet writes it, with nanoseconds."""
    at = EPOCH + timedelta(seconds=at_ns // 10**9)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at_ns % 10**9:09}Z {text}".encode()


def since_ns(text):
    found = datetime.fromisoformat(text) - EPOCH
    return round(found.total_seconds()) * 10**9


LINES = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 19), st.sampled_from("ab")), max_size=40
)


@given(gaps=LINES, cuts=st.lists(st.integers(0, 40), max_size=6))
def test_wherever_a_log_is_cut_each_line_is_logged_once_and_in_order(gaps, cuts):
    """Stamps go up by up to 4 s, and a line may be up to 1.9 s older than the one before."""
    log, now_ns = [], 10**10
    for forward, back, text in gaps:
        now_ns += forward * 10**7
        log.append((now_ns - back * 10**8, text))
    position, reported = LogPosition(), []
    for cut in [*cuts, len(log)]:
        since = position.begin_again()
        sent = [line for line in log if since is None or line[0] >= since_ns(since)]
        for at_ns, text in sent[:cut] if cut < len(log) else sent:
            found = position.take(stamped(at_ns, text) + b"\n")
            if found is not None:
                reported.append(found.text)
    assert reported == [text for _, text in log]


@given(gaps=LINES, stops=st.lists(st.integers(0, 40), max_size=4), secret=st.booleans())
def test_a_later_follower_logs_what_is_new_and_nothing_twice(gaps, stops, secret):
    """Each begins from what Prefect's log has: microseconds, and secrets hidden."""

    def shown(text):
        return f"[node 1] {text.replace('b', '***' if secret else 'b')}"

    log, now_ns = [], 10**10
    for forward, _, text in gaps:
        now_ns += forward * 10**7
        log.append((now_ns, text))
    reported = []
    for stop in [*stops, len(log)]:
        recent = [line for line in reported if line.at >= reported[-1].at - OVERLAP * 2]
        position = LogPosition(recent, shown)
        since = position.begin_again()
        sent = [line for line in log if since is None or line[0] >= since_ns(since)]
        for at_ns, text in sent if stop >= len(log) else sent[:stop]:
            found = position.take(stamped(at_ns, text))
            if found is not None:
                at = max(found.at, reported[-1].at + MICROSECOND) if reported else found.at
                reported.append(LogLine(at, shown(found.text)))
    assert [line.text for line in reported] == [shown(text) for _, text in log]


@pytest.mark.parametrize(
    ("raw", "want"),
    [
        pytest.param(b"2026-03-04T12:00:00.5Z hello\n", "hello", id="a line"),
        pytest.param(b"2026-03-04T12:00:00.123456789+02:00 hi\r\n", "hi", id="of another zone"),
        pytest.param(b"2026-03-04T12:00:00Z \n", "", id="an empty line"),
        pytest.param(b"2026-03-04T12:00:00Z a\xffb\n", "a�b", id="not UTF-8"),
        pytest.param(
            b"unable to retrieve container logs for containerd://4f3e", None, id="the runtime"
        ),
        pytest.param(b'container "prefect-job" in pod "x" not found', None, id="the kubelet"),
        pytest.param(b"2026-03-04T12:00:00 hello", None, id="no zone"),
        pytest.param(b"0001-01-01T00:00:00+14:00 hello", None, id="before all time"),
    ],
)
def test_only_what_a_container_wrote_is_its_output(raw, want):
    found = LogPosition().take(raw)
    assert (found and found.text) == want


class Kubelet:
    """Containers that write when they are asked to, and whose logs are followed."""

    def __init__(self, names):
        self.logs = {name: [] for name in names}
        self.ended = set()
        self._changed = {name: asyncio.Event() for name in names}
        self.open = self.most_open = self.asked = 0
        self.connections = set()

    def write(self, name, *texts):
        log = self.logs[name]
        for text in texts:
            log.append((len(log) * 10**8, text))
        self._emit(name)

    def end(self, *names):
        self.ended |= set(names)
        for name in names:
            self._emit(name)

    def _emit(self, name):
        changed, self._changed[name] = self._changed[name], asyncio.Event()
        changed.set()

    async def handle(self, request):
        if not request.path.endswith("/log"):
            return web.json_response({"holder": "us"})
        name = request.path.split("/")[-2]
        self.connections.add(request.transport.get_extra_info("peername"))
        self.open += 1
        self.asked += 1
        self.most_open = max(self.most_open, self.open)
        try:
            return await self._follow(request, name)
        finally:
            self.open -= 1

    async def _follow(self, request, name):
        since = since_ns(request.query["sinceTime"]) if "sinceTime" in request.query else 0
        response = web.StreamResponse()
        await response.prepare(request)
        sent, log = 0, self.logs[name]
        while True:
            changed, is_over = self._changed[name], name in self.ended
            for at_ns, text in log[sent:]:
                if at_ns >= since:
                    await response.write(stamped(at_ns, text) + b"\n")
            sent = len(log)
            if is_over or request.query["follow"] == "false":
                return response
            await changed.wait()


class Received:
    """What was reported of each container."""

    def __init__(self, kubelet):
        self._kubelet = kubelet
        self.lines = {name: [] for name in kubelet.logs}
        self._changed = anyio.Event()

    def output(self, name):
        def emit(line):
            self.lines[name].append(line.text)
            self._changed.set()

        return ContainerOutput(
            key=name,
            namespace="ml",
            pod=name,
            container="prefect-job",
            emit=emit,
            is_over=lambda: name in self._kubelet.ended,
        )

    async def has(self, want):
        """Wait until it is so; a test's own time-out is the only one."""
        while self.lines != want:
            await self._changed.wait()
            self._changed = anyio.Event()


def test_500_logs_are_followed_over_40_connections_and_nothing_is_lost():
    """A client has 100 connections: with one for each log no lease was renewed any more."""
    names = [f"run-{number}" for number in range(500)]

    async def scenario():
        kubelet = Kubelet(names)
        reported = Received(kubelet)
        async with serving(kubelet) as api, anyio.create_task_group() as tasks:
            follower = OutputFollower(api, MissingRights(), connections=40, turn_s=0.1)
            for name in names:
                tasks.start_soon(follower.follow, reported.output(name))
            for part in range(2):
                for name in names:
                    kubelet.write(name, f"{name}: {part}", f"{name}: and {part}")
                want = {name: [text for _, text in log] for name, log in kubelet.logs.items()}
                await reported.has(want)
                # The same client still has connections for all else.
                assert await api.get("/apis/coordination.k8s.io/v1/leases") == {"holder": "us"}
            for name in names:
                kubelet.write(name, "the last words")
            kubelet.end(*names)
        assert {tuple(lines[-1:]) for lines in reported.lines.values()} == {("the last words",)}
        assert all(len(lines) == 5 for lines in reported.lines.values())
        assert kubelet.most_open == 40
        # A connection that is given up with its turn would be made anew for each of them.
        assert len(kubelet.connections) < 100 < 1_000 < kubelet.asked

    anyio.run(scenario)


def test_few_logs_are_followed_without_being_asked_for_again():
    async def scenario():
        kubelet = Kubelet(["a", "b"])
        reported = Received(kubelet)
        async with serving(kubelet) as api, anyio.create_task_group() as tasks:
            follower = OutputFollower(api, MissingRights(), connections=2, turn_s=0.0)
            for name in kubelet.logs:
                tasks.start_soon(follower.follow, reported.output(name))
            kubelet.write("a", "1")
            kubelet.write("b", "2")
            await reported.has({"a": ["1"], "b": ["2"]})
            assert kubelet.open == kubelet.asked == 2
            kubelet.end("a", "b")

    anyio.run(scenario)


LAST = ["the last words"]


def test_logs_of_containers_that_ended_while_they_waited_are_read_one_right_after_the_other():
    """No more comes of them: a turn of a second for each of 2,000 would be most of a minute."""

    async def scenario():
        kubelet = Kubelet(["a", "b", "c"])
        reported = Received(kubelet)
        async with serving(kubelet) as api, anyio.create_task_group() as tasks:
            follower = OutputFollower(api, MissingRights(), connections=1, turn_s=600.0)
            kubelet.write("a", "1")
            tasks.start_soon(follower.follow, reported.output("a"))
            await reported.has({"a": ["1"], "b": [], "c": []})
            for name in "bc":
                tasks.start_soon(follower.follow, reported.output(name))
            while len(follower._places._waiting) < 2:
                await anyio.lowlevel.checkpoint()
            for name in kubelet.logs:
                kubelet.write(name, "the last words")
            kubelet.end(*kubelet.logs)
            with anyio.fail_after(60):
                await reported.has({"a": ["1", *LAST], "b": LAST, "c": LAST})
        assert kubelet.asked == 2 * 3

    anyio.run(scenario)


async def takes(places, key, order, held):
    async with places.take(key) as turn:
        turn.begin()
        order.append(key)
        await held.wait()


def test_a_place_is_kept_while_none_waits_and_given_up_after_a_turn():
    async def scenario():
        places, order, never = ConnectionTurns(1, turn_s=0.01), [], anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(takes, places, "a", order, never)
            await anyio.wait_all_tasks_blocked()
            (turn,) = places._holders.values()
            assert turn.scope.deadline == float("inf")
            tasks.start_soon(takes, places, "b", order, never)
            while order != ["a", "b"]:
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        assert order == ["a", "b"]

    anyio.run(scenario)


def test_who_is_in_a_hurry_is_next_and_keeps_its_place():
    async def scenario():
        places, order, never = ConnectionTurns(1, turn_s=0.01), [], anyio.Event()
        async with anyio.create_task_group() as tasks:
            for key in "abc":
                tasks.start_soon(takes, places, key, order, never)
                await anyio.wait_all_tasks_blocked()
            places.hurry("c")
            while order != ["a", "c"]:
                await anyio.lowlevel.checkpoint()
            assert places._holders["c"].scope.deadline == float("inf")
            places.forget("c")
            places._end_turns()
            while order != ["a", "c", "b"]:
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()

    anyio.run(scenario)


def test_who_stops_waiting_takes_no_place_with_it():
    async def scenario():
        places, order, end = ConnectionTurns(1, turn_s=60), [], anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(takes, places, "a", order, end)
            await anyio.wait_all_tasks_blocked()
            with anyio.move_on_after(0.01):
                async with places.take("b"):
                    order.append("b")
            end.set()
        async with places.take("c"):
            order.append("c")
        assert order == ["a", "c"]

    anyio.run(scenario)


class Endless:
    """A container with a progress bar that has not ended its line for days, and what came then."""

    async def handle(self, _request):
        bar = stamped(0, "x" * 6 * 1024**2)
        return web.Response(body=bar + b"\n" + stamped(1, "done") + b"\n")


def test_a_line_of_any_length_ends_neither_the_worker_nor_the_log():
    """aiohttp refuses one of over 4 MiB, with an error that ended the worker, and each after it."""
    names = Kubelet(["a"])
    reported = Received(names)
    names.end("a")

    async def scenario():
        async with serving(Endless()) as api:
            await OutputFollower(api, MissingRights()).follow(reported.output("a"))

    anyio.run(scenario)
    long, last = reported.lines["a"]
    assert len(long) < 4 * 1024**2
    assert last == "done"


def test_what_goes_wrong_with_one_output_ends_no_worker(caplog):
    def emit(_line):
        raise RuntimeError("no room")

    async def scenario():
        async with serving(Endless()) as api:
            output = replace(Received(Kubelet(["a"])).output("a"), emit=emit)
            await OutputFollower(api, MissingRights()).follow(output)

    anyio.run(scenario)
    assert "Stopped streaming logs from pod a" in caplog.text


class Gone:
    """Knows no pod."""

    async def handle(self, _request):
        return web.json_response({"reason": "NotFound", "message": "no pod"}, status=404)


def test_a_pod_that_is_gone_is_not_asked_for_for_ever():
    async def scenario():
        async with serving(Gone()) as api:
            await OutputFollower(api, MissingRights()).follow(Received(Kubelet(["a"])).output("a"))

    anyio.run(scenario)
