"""A run that runs out of memory: its next attempts need less, and so do the deployment's runs."""

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.requests.out_of_memory.shortage import MemoryShortage, memory_shortage
from tests.end_to_end.conftest import FLOWS, POLICY, closed
from tests.support.prefect_stack import ENGINE
from tests.support.waiting import wait_for

SHRINK = f"{POLICY}memory: {{action: shrink, remember: true}}\n"


def test_a_run_out_of_gpu_memory_shrinks_until_it_completes(new_pool, tmp_path):
    pool = new_pool(SHRINK)
    folder = tmp_path / "training"
    folder.mkdir()
    deployment = pool.deploy(f"{FLOWS}:train_in_little_gpu_memory", gpu_count=1, **ENGINE)
    run = pool.submit(deployment, "training", {"folder": str(folder)})
    exhausted = pool.submit(
        pool.deploy(f"{FLOWS}:exhaust_host_memory", gpu_count=1, max_failures=2, **ENGINE),
        *("exhausted", {"folder": str(folder)}),
    )
    pool.start_worker()

    pool.wait_until(run, "Completed", "Failed", "Crashed", timeout_s=900)
    pool.wait_until(exhausted, "Completed", "Failed", "Crashed", timeout_s=900)
    wait_for(lambda: closed(pool, run, 3), "its three attempts are in the ledger")
    wait_for(lambda: closed(pool, exhausted, 2), "both of the other's are in the ledger")

    attempts = pool.attempts(run)
    assert attempts[-1].end_reason is EndReason.COMPLETED
    assert [memory_shortage(each) for each in attempts] == [*[MemoryShortage.GPU] * 2, None]
    assert [each.is_charged_failure for each in attempts] == [True, True, False]
    assert [each.micro_batch_divisor for each in attempts] == [None, 2, 8]
    sizes = [(folder / f"training-{number}").read_text() for number in (1, 2, 3)]
    assert sizes == ["64 in 1", "32 in 2", "8 in 8"]
    assert _micro_batch_lines(pool, run) == [
        _why_divided(2, "attempt 1"),
        _why_divided(8, "attempt 2"),
    ]

    # Another micro-batch does not help where the machine's memory is used up.
    ended = pool.attempts(exhausted)
    assert [memory_shortage(each) for each in ended] == [MemoryShortage.HOST] * 2
    assert [(folder / f"exhausted-{number}").read_text() for number in (1, 2)] == ["64 in 1"] * 2
    assert pool.state(exhausted) == "Failed"

    later = pool.submit(deployment, "later", {"folder": str(folder)})
    pool.wait_until(later, "Completed", "Failed", "Crashed", timeout_s=900)
    wait_for(lambda: closed(pool, later, 1), "its only attempt is in the ledger")
    assert (folder / "training-1").read_text() == "8 in 8"
    assert _micro_batch_lines(pool, later) == [_why_divided(8, "an earlier run of the deployment")]


def _micro_batch_lines(pool, run):
    return [line for line in pool.logs(run) if line.startswith("Micro-batch: ")]


def _why_divided(divisor, who):
    return (
        f"Micro-batch: divided by {divisor} if the flow calls micro_batch(), because {who} ran "
        "out of GPU memory"
    )
