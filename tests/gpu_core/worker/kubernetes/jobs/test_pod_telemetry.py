"""A Prometheus that is unavailable, slow, or none is said once, and no end waits for it again."""

import json
import logging
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anyio
import pytest

from gpu_core.decisions.policy.telemetry import TelemetryPolicy
from gpu_core.worker.kubernetes.jobs.pod_telemetry import PodTelemetry

ENDED = datetime(2026, 11, 25, 12, tzinfo=UTC)
BEGUN = ENDED - timedelta(hours=1)
PODS = [{"metadata": {"name": "train-0", "namespace": "vision"}}]

ONE_GPU = {
    "status": "success",
    "data": {
        "resultType": "matrix",
        "result": [
            {
                "metric": {"__name__": "prefect_gpu_device_utilization_ratio", "gpu": "GPU-a"},
                "values": [[BEGUN.timestamp(), "0.5"], [BEGUN.timestamp() + 15, "NaN"]],
            }
        ],
    },
}


class Answering(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked += 1
        if self.server.answer is None:
            self.server.silent.wait()
            return
        status, body = self.server.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments):
        pass


@pytest.fixture
def server():
    """An HTTP server; `answer` is a status and a body, None: it never answers."""
    found = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    found.asked, found.answer, found.silent = 0, None, threading.Event()
    thread = threading.Thread(target=found.serve_forever, args=(0.01,))
    thread.start()
    yield found
    found.silent.set()
    found.shutdown()
    thread.join()
    found.server_close()


def policy(server):
    return TelemetryPolicy(prometheus_url=f"http://127.0.0.1:{server.server_address[1]}")


def ok(document):
    return 200, json.dumps(document).encode()


def test_points_become_summaries_and_what_is_no_number_is_missing(server):
    server.answer = ok(ONE_GPU)
    (summary,) = anyio.run(
        PodTelemetry(answer_s=60.0).summaries, policy(server), PODS, BEGUN, ENDED
    )
    assert (summary.gpu_id, summary.samples) == ("GPU-a", 15)
    assert summary.utilization_mean_ratio == 0.5


BROKEN = [
    pytest.param((401, b"<html>log in</html>"), "not a Prometheus response", id="a proxy"),
    pytest.param((200, b"<html>"), "not a Prometheus response", id="another program"),
    pytest.param(ok([]), "not a Prometheus response", id="a list"),
    pytest.param(ok({"status": "success"}), "not a Prometheus response", id="no data"),
    pytest.param(
        ok({"status": "success", "data": {"result": [{"metric": {}, "values": [1]}]}}),
        "not a Prometheus response",
        id="values that are no points",
    ),
    pytest.param(
        ok({"status": "success", "data": {"result": [{"metric": {}, "values": [[1e300, "1"]]}]}}),
        "not a Prometheus response",
        id="a moment that there is not",
    ),
    pytest.param(
        ok({"status": "success", "data": {"result": [{"metric": {}, "values": [[1e18, "1"]]}]}}),
        "not a Prometheus response",
        id="a moment that the platform has not",
    ),
    pytest.param(
        (422, b'{"status": "error", "error": "too many points"}'), "too many points", id="refused"
    ),
    pytest.param((200, b"[" * 100_000), "not a Prometheus response", id="nested without end"),
]


@pytest.mark.parametrize(("answer", "why"), BROKEN)
def test_a_failure_is_said_once_and_the_next_ends_do_not_wait(server, caplog, answer, why):
    server.answer = answer
    now_s = [0.0]
    telemetry = PodTelemetry(clock_s=lambda: now_s[0], answer_s=60.0)

    async def ends():
        for _ in range(3):
            assert await telemetry.summaries(policy(server), PODS, BEGUN, ENDED) == ()
        assert server.asked == 1
        now_s[0] = 61.0
        assert await telemetry.summaries(policy(server), PODS, BEGUN, ENDED) == ()
        assert server.asked == 2

    with caplog.at_level(logging.WARNING, "prefect.gpu.telemetry"):
        anyio.run(ends)
    (record,) = [r for r in caplog.records if r.name == "prefect.gpu.telemetry"]
    assert why in record.getMessage()


def test_one_that_never_answers_is_waited_for_once(server, caplog):
    telemetry = PodTelemetry(clock_s=lambda: 0.0, answer_s=0.2)

    async def ends():
        assert await telemetry.summaries(policy(server), PODS, BEGUN, ENDED) == ()
        server.answer = ok(ONE_GPU)
        assert await telemetry.summaries(policy(server), PODS, BEGUN, ENDED) == ()

    anyio.run(ends)
    assert "timed out after 0.2 seconds" in caplog.text


def test_without_a_prometheus_nothing_is_asked(server, caplog):
    gone = policy(server)
    server.shutdown()
    server.server_close()

    async def ends():
        telemetry = PodTelemetry(clock_s=lambda: 0.0, answer_s=60.0)
        assert await telemetry.summaries(TelemetryPolicy(), PODS, BEGUN, ENDED) == ()
        assert await telemetry.summaries(gone, [], BEGUN, ENDED) == ()
        assert await telemetry.summaries(gone, PODS, ENDED, ENDED) == ()
        assert not caplog.records
        assert await telemetry.summaries(gone, PODS, BEGUN, ENDED) == ()

    anyio.run(ends)
    assert "failed to query" in caplog.text


def test_an_answer_after_a_failure_is_said_too(server, caplog):
    now_s = [0.0]
    telemetry = PodTelemetry(clock_s=lambda: now_s[0], answer_s=60.0)

    async def ends():
        server.answer = (500, b"")
        await telemetry.summaries(policy(server), PODS, BEGUN, ENDED)
        server.answer, now_s[0] = ok(ONE_GPU), 100.0
        return await telemetry.summaries(policy(server), PODS, BEGUN, ENDED)

    assert len(anyio.run(ends)) == 1
    assert "Resumed sampling of pod GPUs" in caplog.text
