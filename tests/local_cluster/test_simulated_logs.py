"""What containers without a kubelet print, and how much of it is asked for."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.cluster import Json

STARTED = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def logs(local_cluster_module):
    return local_cluster_module("simulated_logs")


@pytest.fixture
def kubelet(local_cluster_module):
    return local_cluster_module("fake_kubelet")


@pytest.mark.parametrize(
    ("annotations", "after_s", "ended_after_s", "want"),
    [
        pytest.param({}, 60, None, 0, id="it prints nothing"),
        pytest.param({"log-lines": "9"}, 0, None, 1, id="the first comes with the start"),
        pytest.param({"log-lines": "9"}, 2.9, None, 3, id="then one a second"),
        pytest.param({"log-lines": "9", "log-every-s": "0.5"}, 2, None, 5, id="or faster"),
        pytest.param({"log-lines": "9"}, 60, None, 9, id="until all are printed"),
        pytest.param({"log-lines": "9"}, 60, 3, 4, id="or until it ends"),
        pytest.param({"log-lines": "9"}, 60, 60, 9, id="which is after all"),
        # Its status was written 0.9 s after 12:00:03 and says 12:00:03.
        pytest.param({"log-lines": "99", "log-every-s": "0.3"}, 60, 3, 14, id="its last second"),
    ],
)
def test_printed(logs, annotations, after_s, ended_after_s, want):
    log = logs.log_of(_pod(annotations, ended_after_s))
    assert log.printed(STARTED + timedelta(seconds=after_s)) == want


def test_a_container_that_has_not_started_has_no_output(logs):
    pod = _pod({"log-lines": "9"})
    del pod["status"]["containerStatuses"]
    assert logs.log_of(pod) is None


@pytest.mark.parametrize(
    ("has_timestamp", "want"),
    [
        pytest.param(False, b"line 3\n", id="as printed"),
        pytest.param(True, b"2026-11-01T12:00:01.500000000Z line 3\n", id="with its time"),
    ],
)
def test_line_text(logs, has_timestamp, want):
    log = logs.log_of(_pod({"log-lines": "9", "log-every-s": "0.5"}))
    assert logs.line_text(log, 3, has_timestamp=has_timestamp) == want


@pytest.mark.parametrize(
    ("query", "want"),
    [
        pytest.param("", 0, id="all"),
        pytest.param("tailLines=3", 7, id="the last ones"),
        pytest.param("tailLines=300", 0, id="more than there are"),
        pytest.param("tailLines=0", 10, id="none of them"),
        pytest.param("sinceTime=2026-11-01T12:00:04Z", 4, id="since a moment, which counts"),
        pytest.param("sinceTime=2026-11-01T11:00:00Z", 0, id="since before its start"),
        pytest.param("sinceTime=2026-11-01T13:00:00%2B01:00", 0, id="in another time zone"),
        pytest.param("sinceSeconds=5", 5, id="not older than"),
        pytest.param("sinceSeconds=5&tailLines=2", 8, id="of two bounds the later"),
    ],
)
def test_where_an_answer_begins(logs, kubelet, query, want):
    log = logs.log_of(_pod({"log-lines": "99"}))
    request = kubelet.parse(f"/containerLogs/tests/train/main?{query}")
    assert kubelet.first_line(request, log, STARTED + timedelta(seconds=9.5)) == want


@pytest.mark.parametrize(
    ("target", "want_status"),
    [
        pytest.param("/exec/tests/train/main", 404, id="what is not simulated"),
        pytest.param("/containerLogs/tests/train", 404, id="no container"),
        pytest.param("/containerLogs/tests/train/main?tailLines=x", 400, id="no number"),
        pytest.param("/containerLogs/tests/train/main?sinceTime=now", 400, id="no time"),
    ],
)
def test_what_cannot_be_answered(kubelet, target, want_status):
    with pytest.raises(kubelet.Refused) as refused:
        kubelet.parse(target)
    assert refused.value.status == want_status


def _pod(annotations: dict[str, str], ended_after_s: float | None = None) -> Json:
    began = {"startedAt": "2026-11-01T12:00:00Z"}
    state: Json = {"running": began}
    if ended_after_s is not None:
        ended = STARTED + timedelta(seconds=ended_after_s)
        state = {"terminated": began | {"finishedAt": f"{ended:%Y-%m-%dT%H:%M:%SZ}"}}
    return {
        "metadata": {
            "annotations": {f"simulated.prefect-gpu/{name}": v for name, v in annotations.items()}
        },
        "spec": {"nodeName": "simulated-0"},
        "status": {"containerStatuses": [{"state": state}]},
    }
