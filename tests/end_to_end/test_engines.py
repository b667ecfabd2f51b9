"""Prefect's own ways of running a flow, on a pool of processes."""

from pathlib import Path

import pytest

from tests.end_to_end.conftest import FLOWS, closed
from tests.support.bundle_storage import storage_configuration
from tests.support.prefect_stack import ENGINE, Pool
from tests.support.submitting import start, submitted
from tests.support.waiting import wait_for


@pytest.fixture
def pool(pool: Pool) -> Pool:
    """A pool with a worker and with storage for bundles."""
    storage = storage_configuration(pool.folder / "bundles")
    pool.call("PATCH", f"/work_pools/{pool.name}", {"storage_configuration": storage})
    pool.start_worker()
    return pool


def interrupt(pool: Pool, run: str, folder: Path) -> None:
    """Let a run that begins be preempted, and begin again where it was."""
    wait_for((folder / "began-1").exists, "its first attempt begins")
    urgent = pool.submit(
        pool.deploy(f"{FLOWS}:do_nothing", queue="critical", gpu_count=8, **ENGINE), "urgent"
    )
    pool.wait_until(urgent, "Completed")
    wait_for((folder / "began-2").exists, "its second attempt begins")
    (folder / "release").touch()
    pool.wait_until(run, "Completed")
    wait_for(lambda: closed(pool, run, 2), "both attempts are settled")
    assert [attempt.end_reason for attempt in pool.attempts(run)] == ["Preempted", "Completed"]


def test_a_custom_engine_is_preempted_and_goes_on(pool: Pool, tmp_path: Path) -> None:
    """As with `prefect flow-run execute`, which `test_endings` preempts."""
    run = pool.submit(
        pool.deploy(f"{FLOWS}:count_until_released"), "custom", {"folder": str(tmp_path)}, **ENGINE
    )
    interrupt(pool, run, tmp_path)


def test_a_submitted_flow_is_preempted_and_goes_on_and_is_tried_again(
    pool: Pool, tmp_path: Path
) -> None:
    folder = tmp_path / "submitted"
    run = submitted("submit_to_work_pool", pool, folder)
    interrupt(pool, run, folder)
    submitted(run, pool, folder)
    assert pool.state(run) == "Completed"
    wait_for(lambda: closed(pool, run, 3), "it has run once more")


def test_a_bound_flow_that_is_called_waits_in_the_queue(pool: Pool, tmp_path: Path) -> None:
    folder = tmp_path / "called"
    everything = pool.submit(
        pool.deploy(f"{FLOWS}:count_until_released", gpu_count=8, **ENGINE),
        "all",
        {"folder": str(tmp_path)},
    )
    wait_for((tmp_path / "began-1").exists, "somebody has all GPUs")
    with start("call", pool, folder) as caller:
        wait_for(lambda: of_flow(pool, "bound"), "its run is there")
        (run,) = of_flow(pool, "bound")
        pool.wait_until(run, "WaitingForGpus")
        assert not (folder / "began-1").exists()
        (tmp_path / "release").touch()
        pool.wait_until(everything, "Completed")
        wait_for((folder / "began-1").exists, "it begins")
        (folder / "release").touch()
        assert caller.wait() == 0
    assert len(pool.attempts(run)) == 1


def of_flow(pool: Pool, name: str) -> list[str]:
    """The runs of the pool whose flow has this name."""
    body = {"flows": {"name": {"any_": [name]}}, "work_pools": {"name": {"any_": [pool.name]}}}
    return [run["id"] for run in pool.call("POST", "/flow_runs/filter", body)]
