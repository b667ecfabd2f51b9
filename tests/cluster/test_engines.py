"""Whether a run is a flow or a container, on a real cluster."""

import pytest

from tests.cluster.pools import FLOWS
from tests.support.prefect_stack import Pool, wait_for


@pytest.fixture
def pool(new_pool) -> Pool:
    """A pool with a worker."""
    pool = new_pool()
    pool.start_worker()
    return pool


def ended(pool: Pool, run: str) -> str:
    """Wait until the run's only attempt is settled; how it ended."""
    wait_for(lambda: all(a.released_at for a in pool.attempts(run)), "its attempt is settled")
    (attempt,) = pool.attempts(run)
    return attempt.end_reason


def test_who_means_a_container_is_known_or_held(pool: Pool) -> None:
    """Of runs of the version before only those that cannot mean a flow keep their meaning."""
    older = pool.submit(
        pool.deploy("flows/run_container.py:run-container"), "older", command="true"
    )
    deployment = pool.deploy(f"{FLOWS}:do_nothing", command="/bin/true")
    held = pool.submit(deployment, "held")
    pool.wait_until(held, "AwaitingConcurrencySlot")
    assert pool.message(held).startswith("AmbiguousCommand: ")
    for name in ("'/bin/true'", "container_command", "uv run prefect flow-run execute"):
        assert name in pool.message(held)
    changed = {"job_variables": {"container_command": "/bin/true"}}
    pool.call("PATCH", f"/deployments/{deployment}", changed)
    for run in (older, held):
        pool.wait_until(run, "Completed", timeout_s=120)
        assert ended(pool, run) == "Completed"
