"""The server does not answer as Prefect's API does: one sentence, and 2 or 1 as `--help` says."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from prefect.settings import (
    PREFECT_API_REQUEST_TIMEOUT,
    PREFECT_API_URL,
    PREFECT_CLIENT_MAX_RETRIES,
    temporary_settings,
)

from gpu_core.cli.main import main

_VERSION = b'"3.0.0"'


class _Impostor(BaseHTTPRequestHandler):
    """The first part of the path says what it is like."""

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kind = self.path.split("/")[1]
        is_first = self.path.endswith("/admin/version")
        if kind == "hangs-up" or (kind == "dies" and not is_first):
            self.close_connection = True
            return
        body = _VERSION if is_first and kind in ("dies", "other", "later") else b"<html>"
        if kind == "other" and not is_first:
            body = b"17"
        status = int(kind) if kind.isdigit() else 200
        if kind == "later" and not is_first:
            status, body = 500, b"the database password=hunter22 is wrong"
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):  # the method of any request
            return self._answer
        raise AttributeError(name)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def impostor() -> Iterator[str]:
    """A server that is not Prefect's; its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Impostor)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes connections and never answers, as one without processor time; its API."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/api"


def test_a_server_that_does_not_answer_in_time_is_not_called_unreachable(
    silent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = {PREFECT_API_REQUEST_TIMEOUT: 0.2, PREFECT_CLIENT_MAX_RETRIES: 0}
    with temporary_settings({PREFECT_API_URL: silent, **limits}):
        assert main(["queue"]) == 1
    said = capsys.readouterr().err
    assert "no answer within 0.2 s. The server is running but responding slowly" in said
    assert "reached" not in said


@pytest.mark.parametrize("command", [["queue"], ["hold", "x"]])
@pytest.mark.parametrize(
    ("address", "want_code", "want"),
    [
        pytest.param("http://{}", 2, "Did you mean 'http://{}/api'?", id="the page, not the API"),
        pytest.param("http://{}/404/api", 2, "is not the address of a Prefect API", id="no API"),
        pytest.param("http://{}/hangs-up/api", 2, "is not the address of", id="not even HTTP"),
        pytest.param("https://{}/api", 2, "Did you mean 'http://{}/api'?", id="TLS"),
        pytest.param("http://{}/401/api", 2, "Set PREFECT_API_AUTH_STRING", id="no password"),
        pytest.param("http://{}/500/api", 1, "with HTTP status 500: <html>", id="it fails"),
        pytest.param("http://{}/dies/api", 1, "is no longer reachable", id="gone in the middle"),
        pytest.param("http://{}/other/api", 1, "the same version of Prefect", id="another form"),
        pytest.param("http://{}/later/api", 1, "status 500: the database", id="fails later"),
    ],
)
def test_what_is_no_prefect(
    impostor: str,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    address: str,
    want_code: int,
    want: str,
) -> None:
    settings = {PREFECT_API_URL: address.format(impostor), PREFECT_CLIENT_MAX_RETRIES: 0}
    with temporary_settings(settings):
        code = main(command)
    said = capsys.readouterr()
    assert (code, said.out) == (want_code, "")
    assert want.format(impostor) in said.err
    assert said.err.startswith(f"prefect-gpu {command[0]}: ")
    assert said.err.count("\n") == 1


def test_nothing_listens_at_the_port(capsys: pytest.CaptureFixture[str]) -> None:
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        assert main(["queue"]) == 2
    said = capsys.readouterr().err
    assert "cannot be reached: connection failed (" in said
    assert "(got 'http://127.0.0.1:9/api')" in said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("PREFECT_API_URL", "http://[::1/api", id="an address Prefect refuses"),
        pytest.param("PREFECT_API_REQUEST_TIMEOUT", "abc", id="a setting of a client"),
        pytest.param("PREFECT_LOGGING_LEVEL", "LOUD", id="a setting of the log"),
    ],
)
def test_a_setting_that_prefect_refuses_is_named(name: str, value: str) -> None:
    """In a process of its own, because Prefect reads its settings once."""
    done = subprocess.run(
        [sys.executable, "-m", "gpu_core.cli", "queue"],
        env={**os.environ, name: value},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"prefect-gpu queue: {name} ")
    assert f"(got {value!r})" in done.stderr
    assert done.stderr.count("\n") == 1
