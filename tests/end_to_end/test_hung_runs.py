"""A run that makes no progress: its page says where it hangs, and its next attempt resumes."""

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.telemetry.hung_training_markdown import HANG_KEY
from tests.end_to_end.conftest import FLOWS, closed
from tests.support.nvml_driver import build_driver, gpu_lines
from tests.support.prefect_stack import ENGINE
from tests.support.waiting import wait_for

POLICY = """
version: 1
prices: {h100-80gb: {on-demand: 3600}}
preemption: {grace_period: 12s, min_runtime: 0s}
checkpoints: {interval: 1s}
hangs: {action: restart, stuck_after: 15s}
"""


def test_a_hung_run_is_named_with_its_stack_and_resumed(new_pool, tmp_path):
    pool = new_pool(POLICY)
    machine, driver = tmp_path / "machine.txt", tmp_path / "driver"
    lines = gpu_lines("GPU-a", temperature=60, utilization=100)
    machine.write_text("".join(f"{line}\n" for line in lines))
    driver.mkdir()
    pool.environment |= {
        "LD_LIBRARY_PATH": str(build_driver(driver)),
        "NVML_MOCK_FILE": str(machine),
        # The sampler of a run has the environment of the run.
        "PREFECT_INTEGRATIONS_GPU_PASS_ENVIRONMENT": "LD_LIBRARY_PATH,NVML_MOCK_FILE",
    }
    folder = tmp_path / "hung"
    folder.mkdir()
    deployment = pool.deploy(f"{FLOWS}:count_and_hang_once", gpu_count=1, **ENGINE)
    run = pool.submit(deployment, "hung", {"folder": str(folder)})
    pool.start_worker()

    wait_for(lambda: (folder / "began-2").exists(), "the second attempt began", timeout_s=900)
    (folder / "release").touch()
    pool.wait_until(run, "Completed")
    wait_for(lambda: closed(pool, run, 2), "both attempts are in the ledger")
    first, second = pool.attempts(run)
    assert first.end_reason is EndReason.HUNG
    assert first.is_charged_failure
    assert first.end_message.startswith("Failure 1 of 3: the run hung: No progress for ")
    assert f"rank 0 on {first.node} (GPU-a) spins" in first.end_message
    assert second.restored_from == first.checkpoint is not None
    assert int((folder / "began-2").read_text()) > 0
    (artifact,) = pool.call(
        "POST",
        "/artifacts/filter",
        {"artifacts": {"key": {"any_": [HANG_KEY]}, "flow_run_id": {"any_": [run]}}},
    )
    assert " in wait_for_nothing" in artifact["data"]
    assert "The time without progress cost $" in artifact["data"]
    assert any("The time without progress cost $" in line for line in pool.logs(run))
