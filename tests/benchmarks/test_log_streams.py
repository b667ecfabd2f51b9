"""What the measurement of many logs says of lines that came late, twice or not at all."""

import pytest

from benchmarks.log_streams import _of_lines
from tests.support.log_streams import LINES, Received

ALL = tuple(f"line {number}" for number in range(LINES))


def reported(lines, wait_s=0.0):
    return Received(list(lines), [10.0 + wait_s] * len(lines), [10.0] * len(lines))


@pytest.mark.parametrize(
    ("lines", "want_wrong"),
    [
        pytest.param(ALL, 0, id="all of them"),
        pytest.param(ALL[:-1], 1, id="the last is missing"),
        pytest.param((*ALL, ALL[-1]), 1, id="the last came twice"),
        pytest.param((ALL[1], ALL[0], *ALL[2:]), 1, id="two came in another order"),
        pytest.param((), 1, id="none came"),
    ],
)
def test_a_log_is_wrong_unless_each_line_came_once_and_in_order(lines, want_wrong):
    found = _of_lines({"a": reported(ALL), "b": reported(lines)})
    assert (found["lines"], found["wrong_logs"]) == (LINES + len(lines), want_wrong)


def test_waits_are_those_of_lines_and_not_of_logs():
    found = _of_lines({"a": reported(ALL, 1.0), "b": reported(ALL[:1], 61.0)})
    assert (found["p50_s"], found["p99_s"], found["longest_s"]) == (1.0, 61.0, 61.0)
