"""SIGTERM alone ends a worker's scheduling at once, whatever its parent set; its runs go on."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from urllib.parse import urlsplit

import pytest

from gpu_core.cli.quickstart.services import Service
from gpu_core.worker.startup.stopping import LONGEST_STOP_S
from tests.end_to_end.conftest import FLOWS
from tests.support.cuttable_line import CuttableLine
from tests.support.prefect_stack import PrefectServer
from tests.support.waiting import wait_for

# A busy machine may take a while for what an idle one does at once.
_SLACK_S = 30.0

# More than the interval at which a worker of these tests asks the server.
_OUTAGE_S = 3.0


@contextmanager
def silent(server: PrefectServer) -> Iterator[None]:
    """The server takes connections and does not answer."""
    os.killpg(server.service.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(server.service.process.pid, signal.SIGCONT)


def terminate(worker: Service) -> None:
    """SIGTERM, once; the worker ends by itself."""
    worker.process.send_signal(signal.SIGTERM)
    try:
        worker.process.wait(LONGEST_STOP_S + _SLACK_S)
    except subprocess.TimeoutExpired:
        pytest.fail("the worker outlives SIGTERM")


@pytest.mark.parametrize("parent", ["nohup", "deaf"])
def test_sigterm_ends_the_worker_and_the_next_one_adopts_its_run(pool, journal, tmp_path, parent):
    """Nothing starts any more, and what runs is not touched."""
    release = tmp_path / "release"
    deployment = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(120, release))
    run = pool.submit(deployment, "goes-on", gpu_count=8)
    worker = pool.start_worker(parent=parent)
    pool.wait_until(run, "Running")
    waits = pool.submit(deployment, "waits", gpu_count=8)

    terminate(worker)
    assert worker.process.returncode == 0

    assert [entry["what"] for entry in journal.entries()] == ["begin"]
    release.touch()
    pool.wait_until(run, "Completed")
    assert not pool.attempts(waits)
    pool.start_worker()
    pool.wait_until(waits, "Completed")
    wait_for(lambda: all(a.released_at for a in pool.attempts(run)), "its attempt is closed")
    assert len(pool.attempts(run)) == len(pool.attempts(waits)) == 1


def test_sigterm_ends_a_worker_that_stands_by(pool):
    """The one that acts is not touched."""
    first = pool.start_worker()
    wait_for(lambda: "Scheduling" in first.log.read_text(), "the first worker acts")
    second = pool.start_worker(parent="usual")
    wait_for(lambda: "on standby" in second.log.read_text(), "the second worker is on standby")

    terminate(second)

    assert first.process.poll() is None


@pytest.mark.parametrize("outage", ["refusing", "silent"])
def test_sigterm_ends_a_worker_whose_server_is_away(pool, journal, tmp_path, server, outage):
    """A call without an answer delays neither the end of scheduling nor that of the process."""
    deployment = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(120, tmp_path / "release"))
    run = pool.submit(deployment, "goes-on", gpu_count=8)
    with CuttableLine(urlsplit(server.api_url).port or 0) as line:
        pool.environment["PREFECT_API_URL"] = f"http://127.0.0.1:{line.port}/api"
        worker = pool.start_worker(parent="nohup")
        pool.wait_until(run, "Running")
        if outage == "refusing":
            line.close()
        with silent(server) if outage == "silent" else nullcontext():
            time.sleep(_OUTAGE_S)  # the outage's length is the point of this test
            terminate(worker)

    assert [entry["what"] for entry in journal.entries()] == ["begin"]
    assert len(pool.attempts(run)) == 1
