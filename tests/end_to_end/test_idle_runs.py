"""A run that holds its GPUs and does not use them: its owner is warned, and it saves and stops."""

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.telemetry.use_markdown import USE_KEY
from tests.end_to_end.conftest import FLOWS
from tests.support.nvml_driver import build_driver, gpu_lines
from tests.support.prefect_stack import ENGINE
from tests.support.waiting import wait_for

POLICY = """
version: 1
prices: {h100-80gb: {on-demand: 3600}}
preemption: {grace_period: 12s, min_runtime: 0s}
checkpoints: {interval: 1s}
idle: {action: stop, after: 5s, grace: 4s}
"""


def test_an_idle_run_is_warned_saved_and_stopped_and_one_that_works_is_left_alone(
    new_pool, tmp_path
):
    pool = new_pool(POLICY)
    machine, driver = tmp_path / "machine.txt", tmp_path / "driver"
    lines = [
        *gpu_lines("GPU-a", temperature=60, utilization=0),
        *gpu_lines("GPU-b", temperature=60, utilization=0),
    ]
    machine.write_text("".join(f"{line}\n" for line in lines))
    driver.mkdir()
    pool.environment |= {
        "LD_LIBRARY_PATH": str(build_driver(driver)),
        "NVML_MOCK_FILE": str(machine),
        # The sampler of a run has the environment of the run.
        "PREFECT_INTEGRATIONS_GPU_PASS_ENVIRONMENT": "LD_LIBRARY_PATH,NVML_MOCK_FILE",
    }
    runs = {}
    for name, flow in (("idle", "count_and_hold"), ("working", "count_until_released")):
        folder = tmp_path / name
        folder.mkdir()
        deployment = pool.deploy(f"{FLOWS}:{flow}", gpu_count=1, **ENGINE)
        runs[name] = pool.submit(deployment, name, {"folder": str(folder)})
    pool.start_worker()

    pool.wait_until(runs["idle"], "Failed", timeout_s=900)
    (attempt,) = pool.attempts(runs["idle"])
    assert attempt.end_reason is EndReason.IDLE
    assert not attempt.is_charged_failure
    assert attempt.checkpoint
    assert attempt.end_message.startswith(
        "Stopped because the run was idle: Never touched its GPUs for "
    )
    for signal in ("utilization 0%", "processor cores", "last step"):
        assert signal in attempt.end_message
    (artifact,) = pool.call(
        "POST",
        "/artifacts/filter",
        {"artifacts": {"key": {"any_": [USE_KEY]}, "flow_run_id": {"any_": [runs["idle"]]}}},
    )
    assert (
        "it costs $3,600.00 an hour. The run saves a checkpoint and stops at " in artifact["data"]
    )
    warning = "The run saves a checkpoint and stops at"
    warned = [line for line in pool.logs(runs["idle"]) if warning in line]
    assert warned

    assert pool.state(runs["working"]) == "Running"
    (tmp_path / "working" / "release").touch()
    pool.wait_until(runs["working"], "Completed")
    wait_for(lambda: pool.attempts(runs["working"])[0].released_at, "its attempt is closed")
