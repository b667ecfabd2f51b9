"""What the worker sees of an outage, against servers that are real."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anyio
import httpx
import pytest
from prefect.client.orchestration import PrefectClient
from prefect.exceptions import PrefectHTTPStatusError
from sqlalchemy.exc import IntegrityError, InternalError, OperationalError
from sqlalchemy.exc import TimeoutError as SqlTimeout

from gpu_core.cli.quickstart.services import free_port
from gpu_core.worker.infrastructure import Unavailable
from gpu_core.worker.operations.outage_errors import platform_failure
from gpu_core.worker.prefect.repeated_requests import ApiAway
from gpu_core.worker.watch.outages import OutageWatch


def polled(url, path, times=1):
    """What the watch has seen after so many polls."""

    async def main():
        async with PrefectClient(url) as client:
            watch = OutageWatch(client, path, None)
            for _ in range(times):
                await watch.poll()
            return watch.seen

    return anyio.run(main)


@pytest.fixture
def answering():
    """Starts a server that answers everything with this status; its API's address."""
    servers = []

    def start(status):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{server.server_port}/api"

    yield start
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param(200, 0, id="it is ready"),
        pytest.param(404, 0, id="an API without this page answers"),
        pytest.param(503, 1, id="its database is away"),
        pytest.param(502, 1, id="a proxy answers for a server that is away"),
    ],
)
def test_an_api_that_answers_is_away_where_it_cannot_serve(tmp_path, answering, status, want):
    """At once: Prefect's client would repeat the request for a minute."""
    assert len(polled(answering(status), tmp_path / "outages.json")) == want


def test_an_outage_is_seen_at_once_is_one_and_is_known_to_the_next_worker(tmp_path):
    path = tmp_path / "state" / "outages.json"
    nowhere = f"http://127.0.0.1:{free_port()}/api"
    (outage,) = polled(nowhere, path, times=3)
    assert outage.part == "api"
    assert outage.began_at < outage.seen_at

    kept = OutageWatch(None, path, None).seen
    assert [(o.part, o.began_at) for o in kept] == [("api", outage.began_at)]


def test_the_log_separates_no_connection_from_an_api_that_fails(tmp_path, answering, caplog):
    """A starved server and one that is down need different remedies."""
    polled(f"http://127.0.0.1:{free_port()}/api", tmp_path / "down.json")
    polled(answering(503), tmp_path / "failing.json")
    assert "Prefect's API is unavailable: connection failed (" in caplog.text
    assert "Prefect's API is unavailable: HTTP status 503" in caplog.text


@pytest.mark.parametrize(
    ("took_s", "want"),
    [
        pytest.param(9, 1, id="the request timed out"),
        pytest.param(600, 0, id="the worker stood still"),
    ],
)
def test_a_worker_that_was_stopped_saw_nothing_meanwhile(tmp_path, monkeypatch, took_s, want):
    clock_s = [0.0]

    async def unanswered():
        clock_s[0] += took_s
        return "no answer within 5 s"

    monkeypatch.setattr("gpu_core.worker.watch.outages.time.monotonic", lambda: clock_s[0])
    watch = OutageWatch(None, tmp_path / "outages.json", None)
    watch._api_failure = unanswered
    anyio.run(watch.poll)
    assert len(watch.seen) == want


@pytest.mark.parametrize("content", ["", "[1]", '[{"part": "api"}]', "{}"])
def test_a_damaged_record_is_forgotten(tmp_path, content):
    path = tmp_path / "outages.json"
    path.write_text(content)
    assert OutageWatch(None, path, None).seen == ()


def status_error(status):
    request = httpx.Request("POST", "http://127.0.0.1/api")
    return PrefectHTTPStatusError(
        "no", request=request, response=httpx.Response(status, request=request)
    )


LIMITS = {"timeout": {"connect": 5.0, "read": 60.0, "write": 5.0, "pool": 5.0}}


@pytest.mark.parametrize(
    ("error", "want"),
    [
        pytest.param(
            httpx.ConnectError("refused"),
            "the Prefect API did not respond to the worker: connection failed (refused)",
            id="refused",
        ),
        pytest.param(
            httpx.ReadTimeout("", request=httpx.Request("GET", "http://a", extensions=LIMITS)),
            "the Prefect API did not respond to the worker: no answer within 60 s",
            id="no answer",
        ),
        pytest.param(
            httpx.ReadTimeout(""),
            "the Prefect API did not respond to the worker: no answer in time",
            id="no answer, of an unknown request",
        ),
        pytest.param(
            ApiAway("the Prefect API was unavailable for 60 seconds"),
            "the Prefect API was unavailable for 60 seconds",
            id="an outage that outlasts a request",
        ),
        pytest.param(status_error(500), "the Prefect API returned HTTP 500", id="500"),
        pytest.param(status_error(422), None, id="it refuses what it was asked"),
        pytest.param(
            OperationalError("", {}, Exception()), "the ledger did not respond", id="ledger"
        ),
        pytest.param(
            InternalError("", {}, Exception()), "the ledger did not respond", id="a failover"
        ),
        pytest.param(SqlTimeout(""), "the ledger did not respond", id="no connection left"),
        pytest.param(IntegrityError("", {}, Exception()), None, id="the ledger refuses it"),
        pytest.param(Unavailable("no space left"), "no space left", id="the machine"),
        pytest.param(FileNotFoundError("working_dir"), None, id="the run's working directory"),
        pytest.param(ValueError("no image"), None, id="the run's own variables"),
    ],
)
def test_only_the_platform_s_own_errors_excuse_a_start(error, want):
    found = platform_failure(error)
    assert found is None if want is None else (found or "").startswith(want)


def test_the_record_is_plain_json(tmp_path):
    """Operators read it."""
    path = tmp_path / "outages.json"
    polled(f"http://127.0.0.1:{free_port()}/api", path)
    (record,) = json.loads(path.read_text())
    assert record.keys() == {"part", "began_at", "seen_at"}
