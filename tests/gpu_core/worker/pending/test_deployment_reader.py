"""Known deployments are read again together, and no cycle waits for it."""

from datetime import UTC, datetime
from uuid import UUID

import anyio
import httpx
import pytest
from prefect.client.schemas.responses import DeploymentResponse
from prefect.exceptions import ObjectNotFound
from pydantic import ValidationError

from tests.support.pool import refused_request
from tests.support.queue import deployment_reader

FLOW = UUID(int=1)
TRAIN, TUNE, SERVE = (UUID(int=number) for number in (11, 12, 13))


class Server:
    """Has deployments, and notes what it is asked for."""

    def __init__(self, *ids):
        self.fields = {key: {} for key in ids}
        self.asked = []
        self.may_answer = anyio.Event()
        self.may_answer.set()
        self.damaged = set()

    async def read_deployment(self, deployment_id):
        self.asked.append(deployment_id)
        if deployment_id not in self.fields:
            raise ObjectNotFound(Exception(deployment_id))
        return self._response(deployment_id)

    async def read_deployments(self, *, deployment_filter, limit):
        ids = deployment_filter.id.any_
        assert len(ids) <= limit
        self.asked.append(set(ids))
        await self.may_answer.wait()
        return [self._response(key) for key in ids if key in self.fields]

    def _response(self, key):
        name = None if key in self.damaged else "d"
        return DeploymentResponse.model_validate(
            {"id": key, "name": name, "flow_id": FLOW, **self.fields[key]}
        )


def limit(active_slots):
    return {
        "global_concurrency_limit": {
            "name": "few", "limit": 1, "active_slots": active_slots, "slot_decay_per_second": 0
        }
    }  # fmt: skip


def with_reader(server, story, **options):
    """The story with a reader that has read all deployments of the server once."""

    async def main():
        async with deployment_reader(server, **options) as reader:
            for key in server.fields:
                assert (await reader.of(key)).id == key
            server.asked.clear()
            await story(reader)

    anyio.run(main)


def after_an_interval(reader):
    reader._intervals.reset()


def test_all_are_read_again_in_one_request_after_an_interval_and_not_before():
    server = Server(TRAIN, TUNE, SERVE)

    async def story(reader):
        await reader.refresh()
        await reader.refresh()
        assert server.asked == [{TRAIN, TUNE, SERVE}]
        assert [await reader.of(key) is None for key in (TRAIN, TUNE, SERVE)] == [False] * 3
        after_an_interval(reader)
        await reader.refresh()
        assert server.asked == [{TRAIN, TUNE, SERVE}] * 2, "and `of` asked for none"

    with_reader(server, story)


def test_one_with_a_concurrency_limit_is_read_again_for_each_cycle():
    server = Server(TRAIN, TUNE)
    server.fields[TUNE] = limit(active_slots=0)

    async def story(reader):
        await reader.refresh()
        server.asked.clear()
        for active_slots in (1, 0, 1):
            server.fields[TUNE] = limit(active_slots)
            await reader.refresh()
            assert (await reader.of(TUNE)).global_concurrency_limit.active_slots == active_slots
        assert server.asked == [{TUNE}] * 3

    with_reader(server, story)


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        pytest.param({"last_polled": datetime(2026, 3, 4, tzinfo=UTC)}, True, id="a worker polled"),
        pytest.param({"status": "NOT_READY"}, True, id="no worker polled"),
        pytest.param({"updated": datetime(2026, 3, 4, tzinfo=UTC)}, True, id="either is written"),
        pytest.param({"job_variables": {"gpu_count": 2}}, False, id="its job variables"),
        pytest.param({"entrypoint": "flows.py:tune"}, False, id="its entrypoint"),
        pytest.param({"work_queue_name": "high"}, False, id="its queue"),
        pytest.param(limit(active_slots=1), False, id="its concurrency limit"),
    ],
)
def test_it_is_the_same_object_while_no_run_would_be_read_differently(change, is_same):
    server = Server(TRAIN)

    async def story(reader):
        before = await reader.of(TRAIN)
        server.fields[TRAIN] = change
        await reader.refresh()
        assert (await reader.of(TRAIN) is before) == is_same

    with_reader(server, story)


def test_a_deleted_one_is_none():
    server = Server(TRAIN, TUNE)

    async def story(reader):
        del server.fields[TUNE]
        await reader.refresh()
        assert (await reader.of(TRAIN)).id == TRAIN
        assert await reader.of(TUNE) is None
        assert await reader.of(SERVE) is None
        assert await reader.of(None) is None

    with_reader(server, story)


def test_a_cycle_does_not_wait_for_a_slow_server_and_is_called_when_it_has_answered():
    server, woken = Server(TRAIN), anyio.Event()

    async def story(reader):
        await reader.refresh()
        assert (await reader.of(TRAIN)).entrypoint is None
        after_an_interval(reader)
        server.fields[TRAIN] = {"entrypoint": "flows.py:tune"}
        server.may_answer = anyio.Event()
        await reader.refresh()
        assert (await reader.of(TRAIN)).entrypoint is None
        server.may_answer.set()
        await woken.wait()
        await reader.refresh()
        assert (await reader.of(TRAIN)).entrypoint == "flows.py:tune"

    with_reader(server, story, wake=woken.set, patience_s=0.0)


def test_one_that_cannot_be_read_costs_the_others_one_request_each():
    server = Server(TRAIN, TUNE)

    async def story(reader):
        server.damaged.add(TUNE)
        await reader.refresh()
        assert [await reader.of(TRAIN) is None for _ in range(2)] == [False] * 2
        with pytest.raises(ValidationError):
            await reader.of(TUNE)
        server.asked.clear()
        after_an_interval(reader)
        await reader.refresh()
        assert server.asked == [{TRAIN}]

    with_reader(server, story)


@pytest.mark.parametrize(
    ("status", "is_an_outage"), [(403, False), (422, False), (500, False), (503, True)], ids=str
)
def test_only_an_outage_fails_the_cycle(status, is_an_outage):
    server = Server(TRAIN, TUNE)

    async def refuse(**_filter):
        raise refused_request(status)

    async def story(reader):
        server.read_deployments = refuse
        if is_an_outage:
            with pytest.raises(httpx.HTTPStatusError):
                await reader.refresh()
        else:
            await reader.refresh()
        assert (await reader.of(TRAIN)).id == TRAIN
        assert server.asked == ([] if is_an_outage else [TRAIN])

    with_reader(server, story)


def test_one_that_no_run_needs_is_not_read_again():
    server = Server(TRAIN, TUNE)

    async def story(reader):
        await reader.refresh()
        await reader.of(TRAIN)
        after_an_interval(reader)
        await reader.refresh()
        assert server.asked == [{TRAIN, TUNE}, {TRAIN}]
        await reader.of(TUNE)
        assert server.asked[-1] == TUNE

    with_reader(server, story)
