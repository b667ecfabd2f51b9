"""`prefect-gpu queue`, `hold`, `release` and `move-up` against a real server."""

import json
from datetime import UTC, datetime
from uuid import UUID

import anyio
import pytest
from prefect.client.orchestration import PrefectClient
from prefect.settings import PREFECT_API_URL, temporary_settings

from gpu_core.cli.main import main
from gpu_core.decisions.model.reasons import Explanation, Reason
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.requests.runs.run_workload import RunLimits
from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.worker.pending.demand import Demand
from gpu_core.worker.pending.publisher import Publisher
from tests.end_to_end.conftest import FLOWS, POLICY
from tests.support.waiting import wait_for


@pytest.fixture(autouse=True)
def _api(server):
    with temporary_settings({PREFECT_API_URL: server.api_url}):
        yield


def publish_line(server, pool, run):
    """What a worker does in which `run` is the only one that waits."""

    async def publish():
        async with PrefectClient(server.api_url) as client:
            seen = await client.read_flow_run(UUID(run))
            now = datetime.now(UTC)
            explanation = Explanation(
                workload_id=run,
                reason=Reason.WAITING_FOR_GPUS,
                summary="8 are in use.",
                resolution="Wait.",
                position=1,
            )
            demand = Demand(
                flow_run=seen,
                flow_name="do_nothing",
                deployment=None,
                queue="medium",
                request=GpuRequest(),
                limits=RunLimits(max_duration_s=None, max_failures=3, max_interruptions=None),
                workload=Workload(
                    workload_id=run, name="waiting", priority=1, submitted_at=now, queue="medium"
                ),
            )
            await Publisher(client, pool.name, None, anyio.Lock()).queue(
                [explanation], {run: demand}, now
            )

    anyio.run(publish)


def test_the_line_is_read_from_anywhere(server, pool, capsys):
    """No worker has to be asked: what it published last is in Prefect."""
    run = pool.submit(pool.deploy(f"{FLOWS}:do_nothing"), "waiting")
    assert main(["queue", "--pool", pool.name]) == 0
    shown = capsys.readouterr().out
    assert f"prefect worker start --pool {pool.name} --type gpu-process" in shown
    assert f"1 run scheduled in work pool '{pool.name}'" in shown
    publish_line(server, pool, run)

    assert main(["queue", "--pool", pool.name, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert main(["queue", "--pool", pool.name]) == 0

    assert document["pool"] == pool.name
    (entry,) = document["line"]
    assert (entry["run_id"], entry["position"], entry["queue"]) == (run, 1, "medium")
    assert entry["reason"] == "WaitingForGpus"
    assert "WaitingForGpus" in capsys.readouterr().out


def test_a_pool_that_is_not_there_is_one_clear_line(server, capsys):
    """Exit code 2; also for a pool of Prefect's own."""
    with server.client() as http:
        http.post("/work_pools/", json={"name": "only-cpus", "type": "process"})
    assert main(["queue", "--pool", "nope"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(
        "prefect-gpu queue: --pool is not a work pool on this server (got 'nope')"
    )
    assert "prefect-gpu setup --pool nope --type gpu-process" in error
    assert error.count("\n") == 1
    assert main(["queue", "--pool", "only-cpus"]) == 2
    assert "'only-cpus' is not a GPU pool (got 'process')" in capsys.readouterr().err


def test_people_hold_release_and_move_up_runs(pool, capsys):
    """By id or name; other tags stay, and doing it twice is doing it once."""
    run = pool.submit(pool.deploy(f"{FLOWS}:do_nothing"), f"run of {pool.name}")
    pool.call("PATCH", f"/flow_runs/{run}", {"tags": ["mine"]})

    for command, tags in (
        (["hold", run], {"mine", "gpu:hold"}),
        (["hold", f"run of {pool.name}"], {"mine", "gpu:hold"}),
        (["move-up", run], {"mine", "gpu:hold", "gpu:first"}),
        (["release", run], {"mine", "gpu:first"}),
        (["move-up", run, "--undo"], {"mine"}),
    ):
        assert main(command) == 0
        assert set(pool.run(run)["tags"]) == tags
    assert main(["hold", "no such run"]) == 2
    assert "is not a pending or running flow run" in capsys.readouterr().err


def test_a_name_that_several_runs_have_is_refused_with_their_ids(pool, capsys):
    """No run is held by mistake."""
    deployment = pool.deploy(f"{FLOWS}:do_nothing")
    runs = [pool.submit(deployment, f"twice in {pool.name}") for _ in range(2)]

    assert main(["hold", f"twice in {pool.name}"]) == 2

    error = capsys.readouterr().err
    assert all(run in error for run in runs)
    assert all(pool.run(run)["tags"] == [] for run in runs)


def test_a_held_run_waits_until_it_is_released(new_pool, journal, capsys):
    """In a pool with shares and budgets, whose usage comes from the ledger."""
    pool = new_pool(
        POLICY
        + "ordering: {keys: [priority, fair-share]}\n"
        + "budgets: [{name: month, scope: pool, period: month, usd: 10}]\n"
    )
    deployment = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables())
    held = pool.submit(deployment, "held", team="vision", expected_duration="10m")
    assert main(["hold", held]) == 0
    pool.start_worker()
    other = pool.submit(deployment, "other")
    pool.wait_until(other, "Completed")
    pool.wait_until(held, "Held")
    capsys.readouterr()

    assert main(["queue", "--pool", pool.name, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert held not in [holder["run_id"] for holder in document["holders"]]
    (entry,) = document["line"]
    assert (entry["run"], entry["team"], entry["reason"]) == ("held", "vision", "Held")

    assert main(["release", held]) == 0
    pool.wait_until(held, "Completed")


def test_a_paused_pool_and_a_broken_policy_are_said_and_nothing_is_lost(
    pool, journal, tmp_path, capsys
):
    """On the run's page, in the line and in the log; what runs goes on, also when it is held."""
    release = tmp_path / "release"
    deployment = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(120, release))
    pool.start_worker()
    running = pool.submit(deployment, "running")
    wait_for(lambda: journal.entries("begin"), "the first run has begun")
    capsys.readouterr()
    assert main(["hold", running]) == 0
    assert "is already running" in capsys.readouterr().out

    pool.call("PATCH", f"/work_pools/{pool.name}", {"is_paused": True})
    pool.policy_path.write_text("version: 1\nprioritees: {}\n")
    waiting = pool.submit(deployment, "waiting")
    resume = f"prefect work-pool resume {pool.name}"
    pool.wait_until(waiting, "PoolPaused")
    assert resume in pool.message(waiting)
    wait_for(lambda: "prioritees" in notices_of(pool, capsys), "the line says what the policy is")
    assert main(["queue", "--pool", pool.name]) == 0
    shown = capsys.readouterr().out
    assert resume in shown
    assert f"1 run of pool '{pool.name}' waits." in shown
    assert "PoolPaused: " in shown
    log = pool.worker_log()
    assert log.count(f"To resume it, run: {resume}") == 1
    assert log.count("Failed to load policy file. Using the last valid version") == 1

    pool.policy_path.write_text(POLICY)
    pool.call("PATCH", f"/work_pools/{pool.name}", {"is_paused": False})
    release.touch()
    pool.wait_until(waiting, "Completed")
    pool.wait_until(running, "Completed")
    wait_for(lambda: "is valid again" in pool.worker_log(), "the good policy is told")


def test_a_worker_of_another_type_is_named_with_what_it_started(pool, journal, capsys):
    """In the line, in the log and on the run's page, each with the command that helps."""
    run = pool.submit(pool.deploy(f"{FLOWS}:do_nothing", **journal.variables()), "taken")
    pool.start_worker(worker_type="process")
    wait_for(
        lambda: "submitted to infrastructure" in pool.worker_log(),
        "the other worker has started the run",
    )
    ours = f"prefect worker start --pool {pool.name} --type gpu-process"
    wait_for(lambda: "type 'process'" in notices_of(pool, capsys), "the line names the worker")
    assert (
        f"No gpu-process worker is online for this work pool. To start a worker, run: {ours}"
        in notices_of(pool, capsys)
    )

    pool.start_worker()
    wait_for(
        lambda: any(
            "of type 'process' started this run" in line and ours in line for line in pool.logs(run)
        ),
        "its page says what started it",
    )
    assert pool.worker_log().count("starts runs in this pool without allocating GPUs") == 1
    assert "No gpu-process worker" not in notices_of(pool, capsys)


def notices_of(pool, capsys):
    """What the queue says in addition to its runs, as JSON."""
    capsys.readouterr()
    assert main(["queue", "--pool", pool.name, "--json"]) == 0
    return json.dumps(json.loads(capsys.readouterr().out)["notices"])
