"""What GPUs cost while nothing ran on them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.costs.anomalies.report.use_section import use_section
from gpu_core.decisions.costs.anomalies.report.waste import idle_part, waste_of
from gpu_core.decisions.costs.usage.usage_cost import Window, run_cost
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.testing.builders.attempts import make_attempt, make_run

DAY = datetime(2026, 11, 24, tzinfo=UTC)
WINDOW = Window(DAY, DAY + timedelta(days=1))


def summary(busy, **more):
    values = {"samples": 100, "busy_ratio": busy, "utilization_mean_ratio": busy}
    return GpuSummary(gpu_id="GPU-a", **values | more)


def cost_of(*busy, team="vision", hours=2, run_id="r1", price=3_600_000):
    attempts = [
        make_attempt(
            run_id,
            number=number,
            admitted_at=DAY + timedelta(hours=4 * number),
            released_at=DAY + timedelta(hours=4 * number + hours),
            gpu_ids=("GPU-a",),
            price_micro_usd_per_gpu_hour=price,
            gpu_summaries=None if each is None else (summary(each),),
        )
        for number, each in enumerate(busy, 1)
    ]
    return run_cost(replace(make_run(run_id), team=team, name=run_id), attempts, WINDOW.end)


@pytest.mark.parametrize(
    ("busy", "want"),
    [
        pytest.param((0.75,), (5_400_000, 1_800_000, 0), id="a quarter of the samples is idle"),
        pytest.param((None,), (0, 0, 7_200_000), id="not sampled is not used"),
        pytest.param((0.0, 1.0), (7_200_000, 7_200_000, 0), id="two attempts"),
        pytest.param((0.5, None), (3_600_000, 3_600_000, 7_200_000), id="one of them sampled"),
    ],
)
def test_the_cost_is_used_idle_or_unmeasured(busy, want):
    assert waste_of(cost_of(*busy), WINDOW).micro_usd == want


def test_virtual_gpus_are_unmeasured():
    attempt = cost_of(0.5).attempts[0]
    assert idle_part(replace(attempt, gpu_summaries=(summary(0.1, is_simulated=True),))) is None
    assert idle_part(replace(attempt, released_at=None)) is None


@given(st.lists(st.none() | st.floats(0, 1), min_size=1, max_size=4), st.integers(1, 9_999_999))
def test_the_parts_add_up_to_the_cost(busy, price):
    cost = cost_of(*busy, price=price)
    assert sum(waste_of(cost, WINDOW).micro_usd) == cost.total_micro_usd


def test_the_report_names_teams_and_under_used_runs():
    costs = [cost_of(0.1), cost_of(0.9, team="speech", run_id="r2"), cost_of(None, run_id="r3")]
    (section,) = use_section(costs, WINDOW)
    assert "| vision | $14.40 | $0.7200 | $6.48 | $7.20 | 10% |" in section
    assert "| speech | $7.20 | $6.48 | $0.7200 | $0.00 | 90% |" in section
    assert "| all teams | $21.60 | $7.20 | $7.20 | $7.20 | 50% |" in section
    assert "1 run had a GPU utilization below 30%" in section
    assert section.count("r1") == 2  # its name, and the address of its page


def test_without_measurements_there_is_no_section():
    assert use_section([cost_of(None)], WINDOW) == []
