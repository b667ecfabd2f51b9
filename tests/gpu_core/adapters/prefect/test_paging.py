"""Lists of Prefect's API: every object once, in no more requests than there are pages."""

import anyio
import pytest

from gpu_core.adapters.prefect.paging import PAGE, read_all, read_pages


class Server:
    """Has this many objects, and answers a page at most."""

    def __init__(self, count):
        self.objects = list(range(count))
        self.requests = 0

    async def read(self, limit, offset):
        assert limit == PAGE
        self.requests += 1
        return self.objects[offset : offset + limit]


@pytest.mark.parametrize(
    ("count", "want_requests"),
    [
        pytest.param(0, 1, id="none"),
        pytest.param(PAGE - 1, 1, id="less than a page"),
        pytest.param(PAGE, 2, id="a full page may not be the last"),
        pytest.param(2 * PAGE + 1, 3, id="the third page has one"),
    ],
)
def test_every_object_is_read_once_and_in_order(count, want_requests):
    server = Server(count)
    assert anyio.run(read_all, server.read) == server.objects
    assert server.requests == want_requests


def test_a_reader_that_has_enough_asks_for_no_more():
    server = Server(10 * PAGE)

    async def first_page():
        async for page in read_pages(server.read):
            return page
        return None

    assert anyio.run(first_page) == server.objects[:PAGE]
    assert server.requests == 1
