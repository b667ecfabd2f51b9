"""The health endpoint of a real worker, as a kubelet asks it."""

import signal
import sqlite3
from contextlib import closing

import httpx
import pytest

from gpu_core.cli.quickstart.services import free_port
from tests.end_to_end.conftest import FLOWS
from tests.support.waiting import wait_for

# A worker is stuck without a cycle for thirty times as long.
_POLL_S = "0.2"
# Far longer than a busy machine takes for an answer.
_ANSWER_S = 240.0

# SIGUSR1 blocks the event loop until a file is there: as a library that never returns.
_BLOCKING = """
import pathlib, signal, time

def block(_number, _frame):
    while not pathlib.Path({release!r}).exists():
        time.sleep(0.05)

signal.signal(signal.SIGUSR1, block)
"""


class Probe:
    """What the worker at this port answers."""

    def __init__(self, port):
        self.port = port

    def __call__(self, path="/health", timeout_s=_ANSWER_S):
        """Status and JSON; (0, {}): no answer."""
        try:
            answer = httpx.get(f"http://127.0.0.1:{self.port}{path}", timeout=timeout_s)
        except httpx.TransportError:
            return 0, {}
        return answer.status_code, answer.json()

    def metrics(self):
        """The samples of a scrape, by name and labels."""
        answer = httpx.get(f"http://127.0.0.1:{self.port}/metrics", timeout=_ANSWER_S)
        assert answer.headers["content-type"].startswith("text/plain; version=")
        lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}

    def says(self, live, ready, state):
        """Wait for these statuses of both probes, and this state."""

        def is_so():
            (is_live, found), (is_ready, _) = self(), self("/ready")
            return (is_live, is_ready, found.get("state")) == (live, ready, state)

        wait_for(is_so, f"{state}: {live} and {ready}", timeout_s=90)


@pytest.fixture
def probe(pool, tmp_path):
    probe = Probe(free_port())
    (tmp_path / "sitecustomize.py").write_text(_BLOCKING.format(release=str(tmp_path / "release")))
    pool.environment |= {
        "PREFECT_WORKER_QUERY_SECONDS": _POLL_S,
        "PREFECT_WORKER_WEBSERVER_HOST": "127.0.0.1",
        "PREFECT_WORKER_WEBSERVER_PORT": str(probe.port),
        "PYTHONPATH": str(tmp_path),
    }
    return probe


def test_a_worker_that_is_stuck_says_so_and_is_well_again(pool, probe, journal, tmp_path):
    """First a request that does not return, then an event loop that is blocked, then SIGSTOP."""
    worker = pool.start_worker(options=["--with-healthcheck"])
    probe.says(200, 200, "acting")

    with closing(sqlite3.connect(pool.ledger_url.removeprefix("sqlite:///"))) as ledger:
        ledger.execute("BEGIN EXCLUSIVE")
        run = pool.submit(pool.deploy(f"{FLOWS}:do_nothing", **journal.variables()), "waits")
        probe.says(503, 503, "stuck")
        reason = probe()[1]["reason"]
        assert reason.startswith("No scheduling cycle has finished for "), reason
    pool.wait_until(run, "Completed")
    probe.says(200, 200, "acting")

    worker.process.send_signal(signal.SIGUSR1)
    probe.says(503, 503, "stuck")
    assert probe()[1]["reason"].startswith("The event loop has been blocked for ")
    (tmp_path / "release").touch()
    probe.says(200, 200, "acting")

    pool.signal_worker(signal.SIGSTOP)
    try:
        # A process that is stopped does not answer, however long the wait.
        assert probe(timeout_s=2) == (0, {})
    finally:
        pool.signal_worker(signal.SIGCONT)
    probe.says(200, 200, "acting")


def test_outages_and_standby_restart_no_worker(pool, probe, server):
    """Without Prefect's server it is live, and not ready; a second worker is both."""
    pool.start_worker(options=["--with-healthcheck"])
    probe.says(200, 200, "acting")
    second = Probe(free_port())
    pool.environment["PREFECT_WORKER_WEBSERVER_PORT"] = str(second.port)
    pool.start_worker(options=["--with-healthcheck"])
    second.says(200, 200, "standby")
    assert second()[1]["reason"] == "another worker on this machine is active for this pool"
    labels = f'capacity_type="on-demand",gpu_type="a100-80gb",pool="{pool.name}"'
    free, cycles = f'prefect_gpu_gpus{{{labels},state="free"}}', "prefect_gpu_cycles_total"
    assert probe.metrics()[free] == 8
    assert probe.metrics()[f'{cycles}{{pool="{pool.name}"}}'] > 0
    assert free not in second.metrics()
    assert second.metrics()[f'{cycles}{{pool="{pool.name}"}}'] == 0

    server.stop()
    try:
        probe.says(200, 503, "waiting")
        assert probe()[1]["reason"] == "The Prefect API is not responding."
    finally:
        server.start()
    probe.says(200, 200, "acting")
