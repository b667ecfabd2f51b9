"""Prefect's own ways of running a flow, and who means a container, on a real cluster."""

from collections.abc import Iterator

import pytest

from tests.cluster.pools import FLOWS, working_pool
from tests.support.bundle_storage import storage_configuration
from tests.support.prefect_stack import Pool
from tests.support.submitting import start, submitted
from tests.support.waiting import wait_for


@pytest.fixture(scope="module")
def _working(cluster, server, tmp_path_factory) -> Iterator[Pool]:
    with working_pool(cluster, server, tmp_path_factory.mktemp("engines")) as (pool, _):
        storage = storage_configuration(pool.folder / "shared" / "bundles")
        pool.call("PATCH", f"/work_pools/{pool.name}", {"storage_configuration": storage})
        yield pool


@pytest.fixture
def pool(_working) -> Iterator[Pool]:
    """A pool with a worker, and with storage for bundles that its pods see."""
    yield _working
    _working.print_logs()


def ended(pool: Pool, run: str) -> str:
    """Wait until the run's only attempt is settled; how it ended."""
    wait_for(lambda: all(a.released_at for a in pool.attempts(run)), "its attempt is settled")
    (attempt,) = pool.attempts(run)
    return attempt.end_reason


def test_the_command_is_how_the_flow_is_started(pool: Pool) -> None:
    """Flows of both kinds run Prefect inside: what they did is not judged by an exit code alone."""
    engine = "python -m prefect flow-run execute"
    done = pool.submit(pool.deploy(f"{FLOWS}:do_nothing"), "done", command=engine)
    failed = pool.submit(
        pool.deploy(f"{FLOWS}:fail"), "failed", command=engine.split(), max_failures=1
    )
    pool.wait_until(done, "Completed", timeout_s=120)
    pool.wait_until(failed, "Failed", timeout_s=120)
    assert "the data set is empty" in pool.message(failed)
    assert (ended(pool, done), ended(pool, failed)) == ("Completed", "Failed")


def test_bundles_run_as_flows_and_a_called_one_goes_through_the_queue(pool: Pool) -> None:
    folder = pool.folder / "shared" / "run"
    with start("call", pool, folder, "gpu-kubernetes") as caller:
        wait_for((folder / "began-1").exists, "the flow begins", 120)
        (folder / "release").touch()
        assert caller.wait() == 0
    run = submitted("submit_to_work_pool", pool, folder, "gpu-kubernetes")
    pool.wait_until(run, "Completed", timeout_s=120)
    assert ended(pool, run) == "Completed"


def test_who_means_a_container_is_known_or_held(pool: Pool) -> None:
    """Of runs of the version before only those that cannot mean a flow keep their meaning."""
    older = pool.submit(
        pool.deploy("flows/run_container.py:run-container"), "older", command="true"
    )
    deployment = pool.deploy(f"{FLOWS}:do_nothing", command="/bin/true")
    held = pool.submit(deployment, "held")
    pool.wait_until(held, "AmbiguousCommand")
    for name in ("'/bin/true'", "container_command", "uv run prefect flow-run execute"):
        assert name in pool.message(held)
    changed = {"job_variables": {"container_command": "/bin/true"}}
    pool.call("PATCH", f"/deployments/{deployment}", changed)
    for run in (older, held):
        pool.wait_until(run, "Completed", timeout_s=120)
        assert ended(pool, run) == "Completed"
