"""The output of simulated pods over HTTPS, as the API server asks a kubelet for it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest

_PATH = "/containerLogs/tests/train/main"


@pytest.fixture
def kubelet(local_cluster_module):
    return local_cluster_module("fake_kubelet")


@pytest.fixture
def log(local_cluster_module):
    """Of a container that has just started and prints three lines, one every 50 ms."""
    return local_cluster_module("simulated_logs").SimulatedLog(
        node="simulated-0", started_at=datetime.now(UTC), ended_at=None, lines=3, every_s=0.05
    )


@contextmanager
def served(
    kubelet, log_of: Callable[[], object], is_silent: Callable[[str], bool] = lambda _: False
) -> Iterator[httpx.Client]:
    """A client of a kubelet that has this log; it is the pod `train`."""
    server = kubelet.FakeKubelet(
        lambda namespace, pod: log_of() if (namespace, pod) == ("tests", "train") else None,
        is_silent,
    )
    server.start()
    try:
        base_url = f"https://{kubelet.HOST}:{server.port}"
        # The API server does not check a kubelet's certificate either.
        with httpx.Client(base_url=base_url, verify=False, timeout=30) as client:  # noqa: S501
            yield client
    finally:
        server.stop()


def test_a_log_is_followed_until_its_container_has_ended(kubelet, log):
    now = {"log": log}
    with (
        served(kubelet, lambda: now["log"]) as client,
        client.stream("GET", _PATH, params={"follow": "true"}) as answer,
    ):
        lines = answer.iter_lines()
        assert [next(lines) for _ in range(3)] == ["line 0", "line 1", "line 2"]
        # Only its end is the end of the answer.
        now["log"] = replace(log, lines=5, ended_at=datetime.now(UTC) + timedelta(seconds=1))
        assert list(lines) == ["line 3", "line 4"]


def test_a_log_that_is_not_followed_ends_where_it_is(kubelet, log):
    with served(kubelet, lambda: replace(log, lines=10, every_s=3600)) as client:
        assert client.get(_PATH).text == "line 0\n"


def test_a_long_log_comes_whole(kubelet, log):
    with served(kubelet, lambda: replace(log, lines=2500, every_s=1e-6)) as client:
        lines = client.get(_PATH, params={"follow": "false"}).text.splitlines()
    assert lines == [f"line {number}" for number in range(2500)]


@pytest.mark.parametrize("follow", ["true", "false"])
def test_an_answer_ends_after_its_limit_in_bytes(kubelet, log, follow):
    with served(kubelet, lambda: replace(log, lines=2500, every_s=1e-6)) as client:
        text = client.get(_PATH, params={"limitBytes": "10", "follow": follow}).text
    assert text == "line 0\nlin"


def test_a_follower_of_a_removed_pod_gets_the_end(kubelet, log):
    now = {"log": replace(log, lines=1)}
    with (
        served(kubelet, lambda: now.get("log")) as client,
        client.stream("GET", _PATH, params={"follow": "true"}) as answer,
    ):
        lines = answer.iter_lines()
        assert next(lines) == "line 0"
        del now["log"]
        assert list(lines) == []


@pytest.mark.parametrize(
    ("path", "query", "want"),
    [
        pytest.param(
            "/containerLogs/tests/other/main",
            {},
            (400, 'pod "other" is waiting to start: ContainerCreating'),
            id="it has not started",
        ),
        pytest.param(
            _PATH,
            {"previous": "true"},
            (400, 'no terminated container before that of pod "train"'),
            id="there was none before",
        ),
        pytest.param(
            "/exec/tests/train/main",
            {},
            (404, "/exec/tests/train/main is not simulated; only containerLogs is"),
            id="no other call",
        ),
    ],
)
def test_what_is_not_there_is_refused(kubelet, log, path, query, want):
    with served(kubelet, lambda: log) as client:
        answer = client.get(path, params=query)
    assert (answer.status_code, answer.text) == want


def test_a_silent_node_does_not_answer_until_it_is_back(kubelet, log):
    asked: list[str] = []

    def is_silent(node: str) -> bool:
        asked.append(node)
        return len(asked) == 1

    with served(kubelet, lambda: replace(log, every_s=1e-6), is_silent) as client:
        assert client.get(_PATH).text == "line 0\nline 1\nline 2\n"
    assert asked == ["simulated-0", "simulated-0"]
