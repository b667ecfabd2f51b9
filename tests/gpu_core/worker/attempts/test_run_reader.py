"""Many ends read their runs in few requests, and one bad run does not affect others."""

from uuid import UUID

import anyio
import httpx
import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import ObjectNotFound

from gpu_core.worker.attempts.run_reader import RunReader

BAD, DELETED = UUID(int=7), UUID(int=8)


class Server:
    """Cannot answer a page that holds the bad run, nor for it alone."""

    def __init__(self, outage=None):
        self.pages = []
        self.alone = []
        self.outage = outage

    async def read_flow_runs(self, flow_run_filter, limit):
        ids = flow_run_filter.id.any_
        assert len(ids) <= limit
        self.pages.append(len(ids))
        await anyio.lowlevel.checkpoint()
        if self.outage is not None:
            raise self.outage
        if BAD in ids:
            raise ValueError("a state that the client cannot read")
        return [FlowRun(id=id_, flow_id=UUID(int=0)) for id_ in ids if id_ != DELETED]

    async def read_flow_run(self, id_):
        self.alone.append(id_)
        if id_ == BAD:
            raise ValueError("a state that the client cannot read")
        if id_ == DELETED:
            raise ObjectNotFound(Exception())
        return FlowRun(id=id_, flow_id=UUID(int=0))


def read_together(server, ids):
    """What each of them is answered: the id of its run, None, or the error."""
    answers = {}

    async def read(reader, id_):
        try:
            run = await reader.of("no uuid" if id_ is None else str(id_))
        except (ValueError, httpx.ConnectError) as error:
            answers[id_] = type(error)
        else:
            answers[id_] = run and run.id

    async def story():
        reader = RunReader(server)
        async with anyio.create_task_group() as readers:
            for id_ in ids:
                readers.start_soon(read, reader, id_)

    anyio.run(story)
    return answers


def test_those_that_end_together_share_a_request():
    server, ids = Server(), [UUID(int=100 + n) for n in range(50)]
    assert read_together(server, ids) == {id_: id_ for id_ in ids}
    assert sum(server.pages) == 50
    assert len(server.pages) <= 2
    assert server.alone == []


def test_a_run_that_cannot_be_read_fails_alone():
    server, good = Server(), [UUID(int=100 + n) for n in range(5)]
    answers = read_together(server, [*good, BAD, DELETED])
    assert answers == {**{id_: id_ for id_ in good}, BAD: ValueError, DELETED: None}


@pytest.mark.parametrize("missing", [DELETED, None], ids=["deleted", "a damaged id"])
def test_a_run_that_is_not_there_is_none(missing):
    assert read_together(Server(), [missing]) == {missing: None}


def test_an_outage_is_not_asked_about_run_by_run():
    server, ids = Server(httpx.ConnectError("away")), [UUID(int=100 + n) for n in range(5)]
    assert set(read_together(server, ids).values()) == {httpx.ConnectError}
    assert server.alone == []
