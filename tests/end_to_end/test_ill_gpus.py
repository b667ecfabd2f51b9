"""A GPU that is not well: its run moves to another one, resumed, and nothing else moves."""

import pytest

from gpu_core.decisions.model.attempts import EndReason
from tests.end_to_end.conftest import FLOWS
from tests.support.nvml_driver import build_driver, gpu_lines
from tests.support.prefect_stack import ENGINE
from tests.support.waiting import wait_for

POLICY = """
version: 1
prices: {h100-80gb: {on-demand: 3.6}}
preemption: {grace_period: 20s, min_runtime: 0s}
checkpoints: {interval: 1s}
"""


@pytest.fixture
def machine(tmp_path):
    """The file of a mock machine with four H100s."""
    path = tmp_path / "machine.txt"
    lines = (
        gpu_lines(f"GPU-{name}", temperature=60, slowdown=87, utilization=80) for name in "abcd"
    )
    path.write_text("".join(f"{line}\n" for of_gpu in lines for line in of_gpu))
    return path


def test_xid_79_and_90_degrees_each_move_a_training_to_another_gpu(new_pool, machine, tmp_path):
    pool = new_pool(POLICY)
    driver = tmp_path / "driver"
    driver.mkdir()
    pool.environment |= {
        "LD_LIBRARY_PATH": str(build_driver(driver)),
        "NVML_MOCK_FILE": str(machine),
    }
    folders = {name: tmp_path / name for name in ("training", "neighbor")}
    runs = {}
    for name, folder in folders.items():
        folder.mkdir()
        deployment = pool.deploy(f"{FLOWS}:count_until_released", gpu_count=1, **ENGINE)
        runs[name] = pool.submit(deployment, name, {"folder": str(folder)})
    training, neighbor = runs["training"], runs["neighbor"]
    pool.start_worker()

    def on(number):
        """The GPU of the training's attempt of this number, once it has saved there."""
        wait_for(
            lambda: len(found := pool.attempts(training)) == number and found[-1].checkpoint,
            f"attempt {number} has saved",
        )
        (gpu,) = pool.attempts(training)[-1].gpu_ids
        return gpu

    first = on(1)
    wait_for(lambda: (folders["neighbor"] / "began-1").exists(), "the neighbor runs")
    _add(machine, f"xid {first} 79")
    second = on(2)
    _add(machine, f"set {second} temperature 90")
    third = on(3)
    for folder in folders.values():
        (folder / "release").touch()
    pool.wait_until(training, "Completed")
    pool.wait_until(neighbor, "Completed")

    assert len({first, second, third}) == 3
    moved = pool.attempts(training)[:2]
    assert [attempt.end_reason for attempt in moved] == [EndReason.INTERRUPTED] * 2
    assert not any(attempt.is_charged_failure for attempt in moved)
    for attempt, reason in zip(
        moved,
        ("XID 79 (the GPU has fallen off the bus)", "90 °C, from 85 °C on it is too hot"),
        strict=True,
    ):
        (gpu,) = attempt.gpu_ids
        assert f"Interrupted: {gpu} has failed: {reason}. Retrying the run" in attempt.end_message
        reported_at = attempt.drain_requested_at
        assert (attempt.released_at - reported_at).total_seconds() < 60
    began = [int((folders["training"] / f"began-{n}").read_text()) for n in (1, 2, 3)]
    assert 0 == began[0] < began[1] < began[2]
    assert len(pool.attempts(neighbor)) == 1
    assert {path.stem for path in (pool.state_dir / "held-gpus").iterdir()} == {first, second}


def _add(machine, line):
    with machine.open("a") as file:
        file.write(f"{line}\n")
