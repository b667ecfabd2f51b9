"""Runs of a GPU work pool on a real GPU: preempted and resumed, out of memory, hung, idle."""

import os
from pathlib import Path

import pytest

from gpu_core.decisions.model.attempts import Attempt, EndReason
from tests.gpu.conftest import FLOWS
from tests.support.prefect_stack import Pool
from tests.support.waiting import wait_for

pytestmark = pytest.mark.gpu

POLICY = """
version: 1
prices: {h100-80gb: {on-demand: 3600}, h200: {on-demand: 3600}}
preemption: {grace_period: 20s, min_runtime: 0s}
checkpoints: {interval: 2s}
"""
# cuBLAS gives the same bits each time only with a workspace of its own.
ENVIRONMENT = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
STEPS, URGENT_STEPS = 450, 350
# Of 50 ms each: what the worker and the run take from the save to the signal.
FEW_STEPS = 100


def submitted(pool: Pool, folder: Path, flow: str, queue: str = "medium", **parameters) -> str:
    """A run of a flow with one GPU and a folder of its own."""
    folder.mkdir()
    environment = ENVIRONMENT | {
        name: os.environ[name] for name in ("LD_LIBRARY_PATH", "PYTHONPATH") if name in os.environ
    }
    deployment = pool.deploy(f"{FLOWS}:{flow}", queue, gpu_count=1, env=environment)
    return pool.submit(deployment, folder.name, {"folder": str(folder), **parameters})


def losses(folder: Path, attempt: int) -> list[tuple[int, str]]:
    """Number and loss of each step of an attempt, as they were written."""
    path = folder / f"losses-{attempt}"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(number), loss) for number, loss in (line.split() for line in lines)]


def ended(pool: Pool, run: str, count: int) -> tuple[Attempt, ...]:
    """The attempts of a run, once so many are in the ledger and have ended."""

    def have_ended() -> bool:
        attempts = pool.attempts(run)
        return len(attempts) == count and all(each.released_at for each in attempts)

    wait_for(have_ended, lambda: f"{count} attempts ended: {pool.attempts(run)}")
    return pool.attempts(run)


def test_a_training_is_preempted_with_a_checkpoint_and_resumes_to_the_same_losses(
    new_pool, tmp_path, gpu
):
    pool = new_pool(POLICY)
    low, urgent = tmp_path / "low", tmp_path / "urgent"
    training = submitted(pool, low, "train", "low", steps=STEPS)
    pool.start_worker()
    wait_for(lambda: len(losses(low, 1)) >= 100, lambda: f"it trains: {pool.states(training)}")
    critical = submitted(pool, urgent, "train", "critical", steps=URGENT_STEPS)
    pool.wait_until(critical, "Completed")
    pool.wait_until(training, "Completed")

    (whole,) = ended(pool, critical, 1)
    first, second = ended(pool, training, 2)
    for attempt in (first, whole, second):
        print(f"\n{attempt.end_reason}: {attempt.end_message}; {attempt.gpu_summaries}")
    assert first.end_reason is EndReason.PREEMPTED
    assert not first.is_charged_failure
    assert second.restored_from == first.checkpoint is not None
    before, after, reference = losses(low, 1), losses(low, 2), losses(urgent, 1)
    # It saved at its notice, and did no more than a few steps until it was ended.
    begin = after[0][0]
    assert [number for number, _ in before] == list(range(len(before)))
    assert len(before) - FEW_STEPS <= begin <= len(before) < URGENT_STEPS
    assert before == reference[: len(before)]
    assert after == [*reference[begin:], *after[URGENT_STEPS - begin :]]
    assert after[-1][0] == STEPS - 1
    for attempt in (first, whole, second):
        (summary,) = attempt.gpu_summaries
        assert summary.gpu_id == gpu.uuid
        assert not summary.is_simulated
        assert summary.energy_j is not None
        assert summary.energy_j > 0
        assert summary.memory_used_max_bytes is not None
        assert summary.memory_used_max_bytes > 2**30
    assert whole.gpu_summaries[0].utilization_p95_ratio > 0.5


def test_a_run_out_of_its_memory_completes_with_a_smaller_micro_batch(new_pool, tmp_path):
    pool = new_pool(POLICY + "memory: {action: shrink}\n")
    folder = tmp_path / "large"
    run = submitted(pool, folder, "fill_memory")
    pool.start_worker()
    pool.wait_until(run, "Completed", "Failed")
    first, second = ended(pool, run, 2)
    print(f"\n{first.end_reason}: {first.end_message}\n{second.end_reason}: {second.end_message}")
    assert first.end_reason is EndReason.FAILED
    assert "OutOfMemoryError: CUDA out of memory" in first.end_message
    assert second.end_reason is EndReason.COMPLETED
    assert (folder / "held").read_text() == "1"


def test_a_kernel_that_does_not_end_is_found_named_and_its_run_resumed(new_pool, tmp_path, gpu):
    pool = new_pool(POLICY + "hangs: {action: restart, stuck_after: 20s}\n")
    folder = tmp_path / "spinning"
    run = submitted(pool, folder, "spin_once")
    pool.start_worker()
    wait_for(lambda: (folder / "ended").exists(), lambda: f"it resumed: {pool.states(run)}")
    pool.wait_until(run, "Completed")
    first, second = ended(pool, run, 2)
    print(f"\n{first.end_message}")
    assert first.end_reason is EndReason.HUNG
    assert f"({gpu.uuid}) spins" in first.end_message
    assert second.restored_from == first.checkpoint is not None
    assert (folder / "began-2").read_text() == "200"


def test_a_run_that_holds_the_gpu_without_work_is_warned_and_stopped(new_pool, tmp_path):
    pool = new_pool(POLICY + "idle: {action: stop, after: 15s, grace: 10s}\n")
    run = submitted(pool, tmp_path / "idle", "hold")
    pool.start_worker()
    pool.wait_until(run, "Failed", "Completed")
    (attempt,) = ended(pool, run, 1)
    print(f"\n{attempt.end_message}; {attempt.gpu_summaries}")
    assert attempt.end_reason is EndReason.IDLE
    assert attempt.end_message.startswith(
        "Stopped because the run was idle: Finished, but holding its GPUs for "
    )
    assert attempt.checkpoint
    assert any("The run saves a checkpoint and stops at" in line for line in pool.logs(run))
