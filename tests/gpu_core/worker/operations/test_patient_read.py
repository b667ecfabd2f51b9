"""Who asks a slow server gets the last answer soon, and the new one as soon as it is there."""

import anyio
import pytest

from gpu_core.worker.operations.patient_read import PatientRead


class Server:
    """Answers with how often it was asked, when its test lets it."""

    def __init__(self):
        self.asked = 0
        self.may_answer = anyio.Event()
        self.error = None

    async def ask(self):
        self.asked += 1
        asked = self.asked
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return asked

    def hold_back(self):
        self.may_answer = anyio.Event()


class Deadlines:
    """Stands for the cancel scopes of waits; each is over at once."""

    def __init__(self):
        self.seen = []

    def __call__(self, *, deadline):
        self.seen.append(deadline)
        return anyio.move_on_after(0)


async def until(condition):
    """Let the other tasks run until this holds: one that pauses is not at its end."""
    with anyio.fail_after(600):
        while not condition():
            await anyio.lowlevel.checkpoint()


@pytest.fixture
def reported():
    """How often a late answer was announced."""
    return []


def run(story, reported, patience_s=0.0):
    async def main():
        async with anyio.create_task_group() as tasks:
            server = Server()
            read = PatientRead(server.ask, tasks, lambda: reported.append(server.asked), patience_s)
            await story(server, read)
            tasks.cancel_scope.cancel()

    anyio.run(main)


def test_the_first_caller_waits_however_long_it_takes(reported):
    async def story(server, read):
        got = []

        async def call():
            got.append(await read.newest())

        async with anyio.create_task_group() as callers:
            callers.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            assert got == []
            server.may_answer.set()
        assert got == [1]
        assert reported == []

    run(story, reported)


def test_a_quick_server_is_asked_for_each_caller(reported):
    async def story(server, read):
        server.may_answer.set()
        assert [await read.newest() for _ in range(3)] == [1, 2, 3]
        assert reported == []

    run(story, reported, patience_s=600)


def test_a_slow_one_is_answered_with_the_last_answer_and_its_own_is_announced_once(reported):
    async def story(server, read):
        server.may_answer.set()
        assert await read.newest() == 1
        server.hold_back()
        assert await read.newest() == 1
        await until(lambda: server.asked == 2)
        assert reported == []
        server.may_answer.set()
        await until(lambda: reported)
        assert reported == [2]
        assert await read.newest() == 2, "who was called gets what it was called for"
        await anyio.wait_all_tasks_blocked()
        assert server.asked == 2, "and does not ask again, or it would never end"

    run(story, reported)


def test_who_asks_while_an_answer_is_under_way_gets_one_that_began_later_too(reported):
    async def story(server, read):
        server.may_answer.set()
        assert await read.newest() == 1
        server.hold_back()
        assert await read.newest() == 1
        await until(lambda: server.asked == 2)
        assert await read.newest() == 1
        server.may_answer.set()
        await until(lambda: server.asked == 3 and len(reported) == 2)
        assert await read.newest() == 3

    run(story, reported)


def test_who_asks_ahead_waits_from_then_on_and_is_not_called_for_what_came_meanwhile(
    reported, monkeypatch
):
    async def story(server, read):
        monkeypatch.setattr(anyio, "current_time", lambda: 100.0)
        server.may_answer.set()
        assert await read.newest() == 1
        server.hold_back()
        read.ask()
        assert read.is_wanted
        await until(lambda: server.asked == 2)
        monkeypatch.setattr(anyio, "current_time", lambda: 160.0)
        monkeypatch.setattr(anyio, "CancelScope", deadlines := Deadlines())
        assert await read.newest() == 1
        assert deadlines.seen == [100.0 + 600.0]
        assert not read.is_wanted
        server.may_answer.set()
        await until(lambda: reported)
        assert await read.newest() == 2

        read.ask()
        await until(lambda: server.asked == 3)
        await anyio.wait_all_tasks_blocked()
        assert read.is_wanted
        assert reported == [2], "who comes for the answer is not called for it"
        assert await read.newest() == 3
        assert server.asked == 3

    run(story, reported, patience_s=600)


@pytest.mark.parametrize(
    ("took_s", "waits_s"),
    [
        pytest.param(5.0, 5.0, id="as long as callers wait"),
        pytest.param(5.1, 0.0, id="longer"),
    ],
)
def test_callers_wait_for_a_server_whose_last_answer_came_in_time(
    reported, monkeypatch, took_s, waits_s
):
    async def story(server, read):
        now = [100.0]

        async def sleep_until(_deadline_s):
            await anyio.lowlevel.checkpoint()

        monkeypatch.setattr(anyio, "current_time", lambda: now[0])
        monkeypatch.setattr(anyio, "sleep_until", sleep_until)
        read.ask()
        await until(lambda: server.asked == 1)
        now[0] += took_s
        server.may_answer.set()
        assert await read.newest() == 1
        server.hold_back()
        monkeypatch.setattr(anyio, "CancelScope", deadlines := Deadlines())
        assert await read.newest() == 1
        assert deadlines.seen == [now[0] + waits_s]

    run(story, reported, patience_s=5.0)


def test_a_failure_is_raised_once_and_the_next_caller_asks_again(reported):
    async def story(server, read):
        server.may_answer.set()
        assert await read.newest() == 1
        server.hold_back()
        server.error = OSError("no server")
        assert await read.newest() == 1
        await until(lambda: server.asked == 2)
        server.may_answer.set()
        await until(lambda: reported)
        assert reported == [2], "also a failure: nothing is decided on an answer of long ago"
        with pytest.raises(OSError, match="no server"):
            await read.newest()
        server.error = None
        while await read.newest() == 1:
            await anyio.lowlevel.checkpoint()
        assert server.asked == 3

    run(story, reported)


def test_a_slow_server_has_as_long_a_pause_as_it_was_busy(reported, monkeypatch):
    async def story(server, read):
        now = [100.0]
        slept_until = []

        async def sleep_until(deadline_s):
            slept_until.append(deadline_s)
            now[0] = max(now[0], deadline_s)

        monkeypatch.setattr(anyio, "current_time", lambda: now[0])
        monkeypatch.setattr(anyio, "sleep_until", sleep_until)
        server.may_answer.set()
        await read.newest()
        server.hold_back()
        await read.newest()
        await anyio.wait_all_tasks_blocked()
        now[0] += 7
        server.may_answer.set()
        await anyio.wait_all_tasks_blocked()
        assert await read.newest() == 2
        await read.newest()
        await anyio.wait_all_tasks_blocked()
        assert (server.asked, slept_until[-1]) == (3, 114.0)

    run(story, reported)


def test_an_answer_of_more_than_a_minute_ago_is_not_used_again(reported, monkeypatch):
    """In an outage nothing is decided on what the server said before it."""

    async def story(server, read):
        now = [100.0]

        async def sleep_until(_deadline_s):
            await anyio.lowlevel.checkpoint()

        monkeypatch.setattr(anyio, "current_time", lambda: now[0])
        monkeypatch.setattr(anyio, "sleep_until", sleep_until)
        server.may_answer.set()
        assert await read.newest() == 1
        server.hold_back()
        now[0] += 60
        assert await read.newest() == 1
        now[0] += 1
        got = []

        async def call():
            got.append(await read.newest())

        async with anyio.create_task_group() as callers:
            callers.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            assert got == []
            server.may_answer.set()
        assert got == [2]

    run(story, reported)


@pytest.mark.parametrize("is_late", [False, True], ids=["asked for", "announced"])
@pytest.mark.parametrize("fails", [False, True], ids=["answer", "failure"])
def test_an_answer_that_no_caller_fetched_for_more_than_a_minute_is_asked_anew(
    reported, monkeypatch, is_late, fails
):
    """The caller failed before it came for its answer, and so did each one for a while."""

    async def story(server, read):
        now = [100.0]

        async def sleep_until(_deadline_s):
            await anyio.lowlevel.checkpoint()

        monkeypatch.setattr(anyio, "current_time", lambda: now[0])
        monkeypatch.setattr(anyio, "sleep_until", sleep_until)
        server.may_answer.set()
        assert await read.newest() == 1
        server.error = OSError("no server") if fails else None
        if is_late:
            server.hold_back()
            with anyio.CancelScope() as scope:
                scope.cancel()
                await read.newest()
            server.may_answer.set()
        else:
            read.ask()
        await until(lambda: server.asked == 2)
        await anyio.wait_all_tasks_blocked()
        assert reported == ([2] if is_late else [])
        assert read.is_wanted
        server.error = None
        now[0] += 61
        assert await read.newest() == 3
        assert not read.is_wanted

    run(story, reported, patience_s=600)


def test_what_is_fetched_within_a_minute_is_not_asked_anew(reported, monkeypatch):
    async def story(server, read):
        now = [100.0]
        monkeypatch.setattr(anyio, "current_time", lambda: now[0])
        server.may_answer.set()
        read.ask()
        await until(lambda: server.asked == 1)
        await anyio.wait_all_tasks_blocked()
        now[0] += 60
        assert await read.newest() == 1
        assert server.asked == 1

    run(story, reported, patience_s=600)
