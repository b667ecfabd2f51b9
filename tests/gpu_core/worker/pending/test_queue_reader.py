"""Which runs of a pool's queues are read, and of which of them a reading says nothing any more."""

import copy
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from uuid import UUID

import anyio
import pytest

from gpu_core.adapters.prefect.paging import PAGE
from tests.support.queue import queue_reader

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
IDS = [str(UUID(int=number)) for number in (11, 12, 13)]


def row(flow_run_id):
    run = {"id": flow_run_id, "flow_id": str(UUID(int=3)), "name": "run", "job_variables": {}}
    return {"work_pool_id": str(UUID(int=1)), "work_queue_id": str(UUID(int=2)), "flow_run": run}


class Server:
    """Has three runs in its queue; answers when its test lets it."""

    def __init__(self, is_quick=True):
        self.ids = list(IDS)
        self.asked = 0
        self.answers = anyio.Event()
        if is_quick:
            self.answers.set()

    async def request(self, _method, _path, **_options):
        self.asked += 1
        rows = [row(flow_run_id) for flow_run_id in self.ids]
        await self.answers.wait()
        return SimpleNamespace(json=lambda: rows)


def test_the_queue_is_not_read_while_a_run_in_it_is_written_to():
    """PostgreSQL would leave that run out, and a later one would overtake it."""

    async def story():
        turn, happened = anyio.Lock(), []
        async with queue_reader(Server(), turn) as reader, anyio.create_task_group() as group:

            async def read():
                happened.append(f"{len((await reader.newest()).responses)} read")

            async with turn:
                group.start_soon(read)
                await anyio.wait_all_tasks_blocked()
                happened.append("written")
        return happened

    assert anyio.run(story) == ["written", "3 read"]


async def until(condition):
    """Let the other tasks run until this holds."""
    with anyio.fail_after(600):
        while not condition():
            await anyio.lowlevel.checkpoint()


async def other_than(last, reader):
    """The first reading that is not this one."""
    with anyio.fail_after(600):
        while (reading := await reader.newest()) is last:
            await anyio.lowlevel.checkpoint()
    return reading


def test_a_reading_says_nothing_about_runs_that_were_held_when_it_began_or_since():
    """Whatever it says of them was so before their attempt: they would start a second time."""

    async def story():
        server, held, woken = Server(), set(), []
        async with queue_reader(
            server, held=lambda: held, wake=lambda: woken.append(1), patience_s=0
        ) as reader:
            first = await reader.newest()
            assert first.outdated == set()
            held.add(IDS[0])
            server.answers = anyio.Event()
            await reader.newest()
            await until(lambda: server.asked == 2)
            held.clear()
            reader.note_outdated([IDS[1]])
            assert first.outdated == {IDS[0], IDS[1]}
            assert not woken
            server.answers.set()
            await until(lambda: woken)  # for the next cycle
            second = await reader.newest()
            assert second is not first
            return second.outdated

    assert anyio.run(story) == {IDS[0], IDS[1]}


def test_the_next_reading_says_what_is_so_of_runs_that_are_not_held_any_more():
    async def story():
        held = {IDS[0]}
        async with queue_reader(Server(), held=lambda: held) as reader:
            assert (await reader.newest()).outdated == {IDS[0]}
            held.clear()
            return (await reader.newest()).outdated

    assert anyio.run(story) == set()


def test_a_reading_that_fails_fails_the_cycle_and_the_last_one_stays_up_to_date():
    async def story():
        server = Server()
        async with queue_reader(server, patience_s=0) as reader:
            first = await reader.newest()

            async def fail(*_arguments, **_options):
                raise OSError("no server")

            server.request, works = fail, server.request
            with pytest.raises(OSError, match="no server"):
                await other_than(first, reader)
            server.request = works
            reader.note_outdated([IDS[2]])
            assert first.outdated == {IDS[2]}
            return (await other_than(first, reader)).outdated

    assert anyio.run(story) == set()


class Long:
    """Has a line of so many runs, due one second after the other, and counts what it is asked."""

    def __init__(self, runs):
        self.rows = [row(str(UUID(int=100 + number))) for number in range(runs)]
        for number, waiting in enumerate(self.rows):
            due = NOON - timedelta(seconds=1_000 - number)
            waiting["flow_run"]["next_scheduled_start_time"] = due.isoformat()
        self.asked = []

    async def request(self, _method, _path, *, json, **_options):
        self.asked.append(json.get("scheduled_after"))
        after = datetime.fromisoformat(json.get("scheduled_after", "1970-01-01T00:00:00+00:00"))
        due = [each for each in copy.deepcopy(self.rows) if due_at(each) >= after]
        return SimpleNamespace(json=lambda: due[:PAGE])

    async def read_work_queues(self, **_options):
        return [SimpleNamespace(name="medium")]


class ManyQueues:
    """Has a run in each of so many queues, and answers as a server does: no more than a page."""

    def __init__(self, queues):
        self.queues = [f"team-{number:03}" for number in range(queues)]
        self.rows = {
            name: row(str(UUID(int=100 + number))) for number, name in enumerate(self.queues)
        }

    async def request(self, _method, _path, *, json, **_options):
        names = json.get("work_queue_names", self.queues)
        found = [self.rows[name] for name in names if "scheduled_after" not in json]
        return SimpleNamespace(json=lambda: found[:PAGE])

    async def read_work_queues(self, *, limit, offset, **_options):
        return [SimpleNamespace(name=name) for name in self.queues[offset : offset + limit]]


def test_a_run_is_found_in_a_queue_behind_two_hundred_others():
    async def story():
        server = ManyQueues(2 * PAGE + 1)
        async with queue_reader(server) as reader:
            return len((await reader.newest()).responses)

    assert anyio.run(story) == 2 * PAGE + 1


def due_at(waiting):
    return datetime.fromisoformat(waiting["flow_run"]["next_scheduled_start_time"])


async def polled(server, reader):
    server.asked.clear()
    reading = await reader.newest()
    return list(reading.responses.values()), len(server.asked)


def test_a_run_that_waits_is_parsed_again_only_where_prefect_says_something_else_of_it():
    async def story():
        server = Long(3)
        async with queue_reader(server) as reader:
            first, _ = await polled(server, reader)
            server.rows[1]["flow_run"]["job_variables"] = {"gpu_count": 2}
            gone = server.rows.pop(2)
            second, _ = await polled(server, reader)
            same = [before is after for before, after in zip(first, second, strict=False)]
            assert same == [True, False]
            assert second[1].flow_run.job_variables == {"gpu_count": 2}
            server.rows.append(gone)
            third, _ = await polled(server, reader)
            assert len(third) == 3
            assert third[2] is not first[2], "what has left the queue is forgotten"

    anyio.run(story)


def test_a_long_queue_is_not_asked_for_in_one_page_again_and_a_short_one_is():
    async def story():
        server = Long(2 * PAGE)
        async with queue_reader(server) as reader:
            first, requests = await polled(server, reader)
            again, fewer = await polled(server, reader)
            assert len(first) == len(again) == 2 * PAGE
            assert fewer == requests - 1
            del server.rows[3:]
            for _ in range(2):
                assert len((await polled(server, reader))[0]) == 3
            assert (await polled(server, reader))[1] == 1

    anyio.run(story)
