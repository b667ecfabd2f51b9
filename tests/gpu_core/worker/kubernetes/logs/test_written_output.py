"""A worker that takes over follows a container's output from where the run's log ends."""

import logging
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from uuid import UUID

import anyio
import httpx
import pytest
from prefect.settings import PREFECT_LOGGING_TO_API_ENABLED, temporary_settings

from gpu_core.worker.attempts.run_log import OutputLog, output_log_name
from gpu_core.worker.kubernetes.logs import written_output
from gpu_core.worker.kubernetes.logs.container_runs import ContainerRuns
from gpu_core.worker.kubernetes.logs.log_position import LogLine
from gpu_core.worker.kubernetes.logs.written_output import WrittenOutput
from gpu_core.worker.prefect.starts_first import StartsFirst
from tests.gpu_core.worker.kubernetes.logs.test_container_runs import RUN, running

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def at(seconds):
    return NOON + timedelta(seconds=seconds)


def of_pod(pod, seconds, message):
    return SimpleNamespace(name=output_log_name(pod), timestamp=at(seconds), message=message)


def of_scheduler(seconds):
    return SimpleNamespace(name="prefect.flow_runs.gpu", timestamp=at(seconds), message="line 1")


class Server:
    """Has the log of one run."""

    def __init__(self, log, failures=()):
        self._newest_first = sorted(log, key=lambda line: line.timestamp, reverse=True)
        self._failures = list(failures)
        self.asked = 0

    async def read_logs(self, log_filter, *, limit, offset, sort):
        assert (log_filter.flow_run_id.any_, sort) == ([RUN], "TIMESTAMP_DESC")
        self.asked += 1
        if self._failures:
            raise self._failures.pop(0)
        return self._newest_first[offset : offset + limit]


def written_of(server, pod="a"):
    return anyio.run(WrittenOutput(server).of, str(RUN), pod)


def test_what_a_pod_has_written_are_the_lines_with_its_name():
    log = [of_pod("a", 1, "line 0"), of_pod("b", 2, "line 0"), of_scheduler(3)]
    assert written_of(Server(log)) == (LogLine(at(1), "line 0"),)


def test_no_more_of_a_long_log_is_read_than_its_last_seconds():
    server = Server([of_pod("a", 0.01 * number, f"line {number}") for number in range(5_000)])
    lines = written_of(server)
    assert lines[-1] == LogLine(at(49.99), "line 4999")
    assert lines[0].at <= at(48)
    assert server.asked <= 3


def test_a_pod_that_others_of_its_gang_talk_over_has_written_what_it_printed_before_them():
    log = [of_pod("b", number, "step") for number in range(10_001)]
    assert written_of(Server([*log, of_pod("a", -1, "hello")])) == (LogLine(at(1), ""),)


@pytest.mark.parametrize(
    ("failures", "want_asked"),
    [
        pytest.param([httpx.ConnectError("refused")] * 2, 3, id="that does not answer, is awaited"),
        pytest.param([ValueError("a bad answer")], 1, id="that refuses, leaves the start"),
    ],
)
def test_a_server(failures, want_asked, monkeypatch):
    monkeypatch.setattr(written_output, "_RETRY_S", 0)
    server = Server([of_pod("a", 1, "line 0")], failures)
    assert len(written_of(server)) == (want_asked > 1)
    assert server.asked == want_asked


class Follower:
    """Is asked to follow, and writes what the test says."""

    def __init__(self):
        self.output = None

    async def follow(self, output):
        self.output, self.position = output, await output.position()


def follow(server, *, begun_here):
    async def story():
        follower, attempt = Follower(), running()
        async with anyio.create_task_group() as tasks:
            containers = ContainerRuns(server, follower, tasks, lambda *_: False, StartsFirst())
            if begun_here:
                containers.begin(attempt.attempt.attempt_id)
            pod = {"metadata": {"uid": "u", "namespace": "ml", "name": "a"}}
            containers.follow(attempt, pod, "main", prefix="[node 1] ")
        return follower, containers.last_lines(attempt.attempt.attempt_id, "u")

    return anyio.run(story)


def test_a_worker_that_takes_over_continues_after_the_last_line():
    server = Server([of_pod("a", 1, "[node 1] one"), of_pod("a", 2, "[node 1] two")])
    follower, last_lines = follow(server, begun_here=False)
    assert follower.position.begin_again() == "2026-03-04T12:00:00Z"
    raw = [b"2026-03-04T12:00:01Z one", b"2026-03-04T12:00:02Z two", b"2026-03-04T12:00:02Z new"]
    assert [follower.position.take(line) for line in raw] == [None, None, LogLine(at(2), "new")]
    assert last_lines == ("one", "two")


def test_the_output_of_an_attempt_of_its_own_is_not_looked_up():
    server = Server([of_pod("a", 1, "[node 1] one")])
    follower, _ = follow(server, begun_here=True)
    assert follower.position.begin_again() is None
    assert server.asked == 0


def test_a_line_has_the_time_at_which_it_was_printed_and_no_two_have_the_same(caplog):
    caplog.set_level(logging.INFO, "prefect.flow_runs.gpu")
    with temporary_settings({PREFECT_LOGGING_TO_API_ENABLED: False}):
        log = OutputLog(running(UUID(int=3)), "a")
        log.continue_after(at(1))
        for seconds, text in [(1, "%d one"), (2, "two"), (1.9, "three")]:
            log.write(at(seconds), text)
    reported = [(r.getMessage(), datetime.fromtimestamp(r.created, UTC)) for r in caplog.records]
    assert reported == [
        ("%d one", at(1) + MICROSECOND),
        ("two", at(2)),
        ("three", at(2) + MICROSECOND),
    ]
    assert {r.name for r in caplog.records} == {"prefect.flow_runs.gpu.a"}
    assert {r.flow_run_id for r in caplog.records} == {str(UUID(int=3))}
