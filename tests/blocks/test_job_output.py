"""The output of a container that a flow has run, page by page."""

from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID, uuid4

import anyio
from hypothesis import given
from hypothesis import strategies as st
from prefect.client.schemas.objects import Log

from blocks.gpu_kubernetes_job import output_of

RUN = UUID(int=7)
NOON = datetime(2026, 9, 1, 12, tzinfo=UTC)


class Server:
    """Sorts by time alone, as Prefect's API does: lines of one time come in any order.

    Args:
        lines: What the log has.
        rng: Decides on that order; None: the server keeps it.
    """

    def __init__(self, lines: list[Log], rng: Random | None = None) -> None:
        self._lines = lines
        self._rng = rng

    async def read_logs(self, log_filter, *, limit, offset, sort) -> list[Log]:
        assert sort.value == "TIMESTAMP_ASC"
        after = None if log_filter.timestamp is None else log_filter.timestamp.after_
        found = [line for line in self._lines if after is None or line.timestamp >= after]
        if self._rng is not None:
            self._rng.shuffle(found)
        found.sort(key=lambda line: line.timestamp)
        return found[offset : offset + limit]


def _line(number: int, at: datetime) -> Log:
    return Log(
        id=uuid4(),
        name="container",
        level=20,
        message=f"line {number}",
        timestamp=at,
        flow_run_id=RUN,
    )


@given(st.lists(st.integers(1, 199), max_size=8), st.randoms(use_true_random=False))
def test_each_line_is_there_once_and_in_the_order_of_their_times(lines_at_once, rng):
    """As many lines as these have each time, and fewer than a page has."""
    lines = [
        _line(number, NOON + timedelta(seconds=second))
        for second, count in enumerate(lines_at_once)
        for number in range(count)
    ]
    found = anyio.run(output_of, Server(lines, rng), RUN)
    assert sorted(found) == sorted(line.message for line in lines)
    at = 0
    for count in lines_at_once:
        assert sorted(found[at : at + count]) == sorted(f"line {n}" for n in range(count))
        at += count


def test_more_lines_of_one_time_than_a_page_has_are_read():
    """By their number, as the server does not distinguish them otherwise."""
    lines = [_line(number, NOON) for number in range(450)]
    assert anyio.run(output_of, Server(lines), RUN) == tuple(line.message for line in lines)
