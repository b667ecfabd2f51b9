"""A copy of a list stays right, whatever happens to the watch."""

from contextlib import asynccontextmanager

import anyio
import pytest

from gpu_core.adapters.kubernetes import Reflector
from tests.gpu_core.adapters.kubernetes.api_server import ScriptedServer, serving

GONE = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}


class Copy:
    """A reflector under test, with what it reported."""

    def __init__(self, api):
        self.changes = []
        self._changed = anyio.Event()
        self.reflector = Reflector(api, "/api/v1/things", self._keep, self._on_change)

    @staticmethod
    def _keep(item):
        return item.get("color")

    def _on_change(self, before, after):
        self.changes.append((before, after))
        self._changed.set()
        self._changed = anyio.Event()

    async def has(self, *colors):
        while sorted(self.reflector) != sorted(colors):
            changed = self._changed
            with anyio.move_on_after(0.05):
                await changed.wait()


@asynccontextmanager
async def following(server):
    """A copy that follows this server."""
    async with serving(server) as api, anyio.create_task_group() as tasks:
        copy = Copy(api)
        tasks.start_soon(copy.reflector.run)
        await copy.reflector.wait_until_synced()
        yield copy
        tasks.cancel_scope.cancel()


def run(scenario):
    anyio.run(scenario)


def test_a_list_of_several_pages_is_one_list():
    async def scenario():
        server = ScriptedServer()
        server.page_size = 2
        for number in range(5):
            server.add(f"t{number}", color=f"c{number}")
        async with following(server) as copy:
            await copy.has(*(f"c{number}" for number in range(5)))
            assert server.lists == 3

    run(scenario)


def test_changes_are_followed_and_reported_with_what_was_before():
    async def scenario():
        server = ScriptedServer()
        server.add("a", color="red")
        async with following(server) as copy:
            server.emit("ADDED", server.add("b", color="blue"))
            await copy.has("red", "blue")
            server.emit("MODIFIED", server.add("a", color="green"))
            await copy.has("green", "blue")
            server.emit("DELETED", server.remove("b"))
            await copy.has("green")
            assert copy.changes == [
                (None, "red"),
                (None, "blue"),
                ("red", "green"),
                ("blue", None),
            ]

    run(scenario)


def test_an_object_that_changed_as_it_went_is_reported_with_its_last_status():
    async def scenario():
        server = ScriptedServer()
        server.add("a", color="running")
        async with following(server) as copy:
            server.emit("DELETED", {**server.remove("a"), "color": "exit code 3"})
            await copy.has()
            assert copy.changes[-2:] == [("running", "exit code 3"), ("exit code 3", None)]

    run(scenario)


def test_the_end_of_an_object_that_was_passed_over_is_not_reported():
    async def scenario():
        server = ScriptedServer()
        server.add("a", color="red")
        server.add("of others")
        async with following(server) as copy:
            await copy.has("red")
            server.emit("DELETED", server.remove("of others"))
            server.emit("DELETED", server.remove("a"))
            await copy.has()
            assert copy.changes == [(None, "red"), ("red", None)]

    run(scenario)


def test_a_list_that_is_refused_is_reported_once_and_followed_when_it_is_allowed(caplog):
    refusal = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "things: no"}

    async def scenario():
        server = ScriptedServer()
        server.add("a", color="red")
        server.refusals += [(403, refusal), (403, refusal)]
        async with following(server) as copy:
            await copy.has("red")
            assert copy.reflector.failure is None

    run(scenario)
    reported = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert reported == ["Failed to watch /api/v1/things: things: no (Forbidden)"]


@pytest.mark.parametrize(
    "forget",
    [
        pytest.param(lambda s: s.emit("ERROR", GONE), id="the watch says 410"),
        pytest.param(
            lambda s: (s.refusals.append((410, GONE)), s.cut()), id="the next watch is refused"
        ),
    ],
)
def test_a_forgotten_version_makes_the_list_anew_and_reports_what_was_missed(forget):
    async def scenario():
        server = ScriptedServer()
        server.add("a", color="red")
        server.add("b", color="blue")
        async with following(server) as copy:
            await copy.has("red", "blue")
            server.remove("a")
            server.add("c", color="white")
            forget(server)
            await copy.has("blue", "white")
            assert ("red", None) in copy.changes
            assert server.lists == 2

    run(scenario)


def test_a_watch_that_was_cut_goes_on_from_the_last_version_without_a_new_list():
    async def scenario():
        server = ScriptedServer()
        server.add("a", color="red")
        async with following(server) as copy:
            bookmark = {"metadata": {"resourceVersion": "77"}}
            server.emit("BOOKMARK", bookmark)
            server.cut()
            server.emit("ADDED", server.add("b", color="blue"))
            await copy.has("red", "blue")
            assert server.lists == 1
            assert server.watched_from[-1] == "77"

    run(scenario)


def test_a_watch_that_says_nothing_any_more_is_asked_for_again_without_a_new_list(monkeypatch):
    monkeypatch.setattr("gpu_core.adapters.kubernetes.reflector.SILENCE_S", 0.05)

    async def scenario():
        server = ScriptedServer()
        server.add("a", color="red")
        async with following(server):
            while len(server.watched_from) < 3:  # noqa: ASYNC110 - it is the server that knows
                await anyio.sleep(0.01)
            assert set(server.watched_from) == {"11"}
            assert server.lists == 1

    run(scenario)


def test_what_decides_nothing_is_not_reported():
    async def scenario():
        server = ScriptedServer()
        server.add("a", color="red", heartbeat=1)
        async with following(server) as copy:
            server.emit("MODIFIED", server.add("a", color="red", heartbeat=2))
            server.emit("MODIFIED", server.add("a", color="blue", heartbeat=3))
            await copy.has("blue")
            assert copy.changes == [(None, "red"), ("red", "blue")]

    run(scenario)


def test_a_server_that_cannot_answer_is_asked_again():
    async def scenario():
        server = ScriptedServer()
        server.add("a", color="red")
        server.refusals += [(503, {"reason": "ServiceUnavailable", "message": "starting"})] * 2
        async with following(server) as copy:
            await copy.has("red")

    run(scenario)
