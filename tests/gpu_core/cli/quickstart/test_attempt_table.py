"""The table of what the GPUs of each attempt did."""

from gpu_core.cli.quickstart.attempt_table import attempt_table
from gpu_core.decisions.costs.usage.usage_cost import run_cost
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.testing.builders.attempts import at, make_attempt, make_run


def table_of(*summaries):
    attempts = [
        make_attempt("run-1", number, admitted_at=at(number), released_at=at(number + 1), **fields)
        for number, fields in enumerate(
            [*({"gpu_summaries": each} for each in summaries), {"gpu_ids": ()}], start=1
        )
    ]
    return attempt_table([run_cost(make_run("run-1"), attempts, at(9))])


def test_each_attempt_with_gpus_has_a_row():
    measured = GpuSummary(
        gpu_id="GPU-0",
        samples=10,
        utilization_mean_ratio=0.9,
        utilization_p95_ratio=0.97,
        busy_ratio=1.0,
        energy_j=36_000.0,
    )
    table = table_of((measured,), None)
    rows = list(zip(*(column.cells for column in table.columns), strict=True))
    assert [row[1:] for row in rows] == [
        ("1", "1", "1h 00m", "90%", "97%", "100%", "10.0 Wh"),
        ("2", "1", "1h 00m", "–", "–", "–", "–"),
    ]
    assert table.caption is None


def test_what_is_simulated_is_said():
    table = table_of((GpuSummary(gpu_id="virtual-0", samples=1, is_simulated=True),))
    assert table.caption == "Utilization and energy are simulated: virtual GPUs have none."
