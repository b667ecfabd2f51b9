"""Requests that an outage of Prefect's API cut off."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anyio
import httpx
import pytest
from prefect.client.orchestration import PrefectClient
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from gpu_core.cli.quickstart.services import free_port
from gpu_core.worker.prefect.repeated_requests import (
    UNAWAITED,
    ApiAway,
    AwaitingTransport,
    awaiting_return,
)
from gpu_core.worker.watch.outages import OutageWatch


def answered(*answers, is_away=(), longest_wait_s=60.0, extensions=None):
    """What a request gets where the API answers so, one after the other; how often it waited.

    Args:
        is_away: What is known of the API each time that it matters; False after that.
    """
    left, known, waits = [*answers], [*is_away], []

    def handle(request):
        answer = left.pop(0)
        if isinstance(answer, int):
            return httpx.Response(answer)
        raise answer

    async def wait_for_return():
        waits.append(1)
        await anyio.lowlevel.checkpoint()

    async def main():
        transport = AwaitingTransport(
            httpx.MockTransport(handle),
            lambda: known.pop(0) if known else False,
            wait_for_return,
            longest_wait_s,
        )
        async with httpx.AsyncClient(transport=transport) as client:
            request = client.build_request("GET", "http://api", extensions=extensions)
            return (await client.send(request)).status_code

    return anyio.run(main), len(waits)


REFUSED = httpx.ConnectError("refused")


@pytest.mark.parametrize(
    ("answers", "is_away", "want"),
    [
        pytest.param([200], [], (200, 0), id="it answers"),
        pytest.param([REFUSED, 200], [True], (200, 0), id="it is back at this moment"),
        pytest.param([REFUSED, 200], [True, True], (200, 1), id="it is back after a wait"),
        pytest.param([REFUSED, 200], [True, True, True], (200, 2), id="the disk was back first"),
        pytest.param([503, 200], [True, True], (200, 1), id="its database was away"),
        pytest.param([503], [False], (503, 0), id="it is busy"),
        pytest.param([500], [True], (500, 0), id="an error of this request"),
        pytest.param([404], [True], (404, 0), id="an answer"),
    ],
)
def test_a_request_waits_only_while_the_api_is_known_to_be_away(answers, is_away, want):
    assert answered(*answers, is_away=is_away) == want


def test_what_fails_for_another_reason_fails_at_once():
    with pytest.raises(httpx.ConnectError):
        answered(REFUSED, is_away=[False])
    with pytest.raises(httpx.UnsupportedProtocol):
        answered(httpx.UnsupportedProtocol("x"), is_away=[True])
    with pytest.raises(httpx.ConnectError):
        answered(REFUSED, is_away=[True], extensions=UNAWAITED)


def test_a_request_waits_for_a_bounded_time():
    """The cycle then continues with what needs no API, such as signs of life for the ledger."""
    with pytest.raises(ApiAway, match="unavailable for 0 s"):
        answered(REFUSED, is_away=[True] * 1000, longest_wait_s=0.0)


@contextmanager
def serving(port):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_request_of_prefects_client_goes_on_when_the_api_is_back(tmp_path):
    """Without one retry of the client, whose pauses of up to 32 s the API's return does not end."""
    port, woken, statuses = free_port(), [], []

    async def story():
        waiting, done = anyio.Event(), anyio.Event()
        async with PrefectClient(f"http://127.0.0.1:{port}/api") as client:
            watch = OutageWatch(client, tmp_path / "outages.json", None, lambda: woken.append(1))

            async def wait():
                waiting.set()
                await watch.wait_for_return()

            async def ask():
                statuses.append((await client._client.get("/flow_runs")).status_code)
                done.set()

            before = client._client._transport
            with awaiting_return(client, lambda: watch.is_api_away, wait):
                await watch.poll()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(ask)
                    await waiting.wait()
                    assert not done.is_set()
                    with serving(port):
                        await watch.poll()
                        await done.wait()
            assert client._client._transport is before

    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):
        anyio.run(story)
    assert statuses == [200]
    assert woken == [1]
