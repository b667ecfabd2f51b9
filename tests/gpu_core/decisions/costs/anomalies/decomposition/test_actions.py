"""A proposal names a setting and what the day would have cost with it."""

from datetime import date, timedelta
from typing import Any

import pytest

from gpu_core.decisions.costs.anomalies.decomposition.actions import propose
from gpu_core.decisions.costs.anomalies.decomposition.decomposition import decompose
from gpu_core.decisions.costs.anomalies.decomposition.explanation import Explainer
from gpu_core.decisions.costs.reports.cost_history import TOTAL
from gpu_core.decisions.costs.usage.usage import round_half_up
from gpu_core.decisions.costs.usage.usage_cost import RunCost, Window, run_cost
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.testing.builders.attempts import at
from tests.gpu_core.decisions.costs.anomalies.decomposition.test_decomposition import (
    DAY,
    END,
    MEASURED,
    SPOT,
    SUMMARY,
    USUAL,
    ZONED,
    Record,
    parts,
    record,
)


def proposal(before: list[Record], now: list[Record]) -> str | None:
    """The proposal for the second day, of which the first's cost was expected."""
    was, is_now = parts(before), parts(now)
    cost, expected = (round_half_up(sum(p.micro_usd for p in each)) for each in (is_now, was))
    found = propose(decompose(is_now, was, cost, expected), is_now, was)
    return None if found is None else found.text


def long(name: str, hours: float = 10.0, **fields: Any) -> Record:
    """A run that holds its GPU for most of the day, from four in the morning."""
    began = {"admitted_at": at(-8), "started_at": at(-8)}
    return record(name, hours - 8, **(began | fields))


@pytest.mark.parametrize(
    ("before", "now", "want"),
    [
        pytest.param(
            [long("a", 20.0)], [long(name, 20.0) for name in "abcde"],
            "Set a concurrency limit of 1 for train/gpu to reduce the daily cost to "
            "$20.00.",
            id="many long runs at once",
        ),
        pytest.param(
            [record("a", 1.0)], [record(name, 1.0) for name in "abcde"],
            "Set a budget for train/gpu of $1.00 a day to reduce the daily cost to "
            "$1.00.",
            id="short runs, which a limit would only move within the day",
        ),
        pytest.param(
            [record(n) for n in "abcd"], [*(record(n) for n in "abc"), long("d", 18.0)],
            "Set max_duration of train/gpu to 2h (longer than all previous runs) to reduce the "
            "daily cost to $8.00.",
            id="one run that was forgotten",
        ),
        pytest.param(
            USUAL, [record("a", 4.0), record("b", 4.0)],
            "Investigate why the run duration of train/gpu has increased to reduce the daily "
            "cost to $4.00.",
            id="all runs take longer: a limit would stop them all",
        ),
        pytest.param(
            USUAL, [record("a", gpus=2), record("b", gpus=2)],
            "Set gpu_count of train/gpu back to 1 "
            "to reduce the daily cost to $4.00.", id="more GPUs",
        ),
        pytest.param(
            USUAL, [*USUAL, record("new", deployment="sweep/gpu")],
            "Pause sweep/gpu or set a budget for it to reduce the daily cost to $4.00.", id="new",
        ),
        pytest.param(
            SPOT, [record(name, price_micro_usd_per_gpu_hour=3_000_000) for name in "ab"],
            "Move train/gpu back to spot to reduce the daily cost to $4.00.", id="on-demand",
        ),
        pytest.param(
            ZONED,
            [record(n, zone="zone-b", price_micro_usd_per_gpu_hour=2_000_000) for n in "ab"],
            "Move train/gpu back to zone-a to reduce the daily cost to $4.00.", id="a dearer zone",
        ),
        pytest.param(
            USUAL, [record(n, gpu_type="h100", price_micro_usd_per_gpu_hour=3_000_000)
                    for n in "ab"],
            "Set gpu_type of train/gpu back to a10g to reduce the daily cost to $4.00.",
            id="another GPU type",
        ),
        pytest.param(
            [*USUAL, record("e", deployment="eval/gpu")],
            [record(name, price_micro_usd_per_gpu_hour=2_000_000, deployment=deployment)
             for name, deployment in (("a", "train/gpu"), ("b", "train/gpu"), ("e", "eval/gpu"))],
            "Move train/gpu and others to offerings with the previous price to reduce the daily "
            "cost to $6.00.",
            id="a price of several deployments",
        ),
        pytest.param(
            USUAL, [*USUAL, record("c", end_reason=EndReason.FAILED, number=2)],
            "Investigate the failures of train/gpu or reduce the number of retries to reduce the "
            "daily cost to $4.00.",
            id="retries",
        ),
        pytest.param(
            USUAL, [*USUAL, record("c", end_reason=EndReason.CRASHED)],
            "Investigate the failures of train/gpu "
            "to reduce the daily cost to $4.00.", id="a failed run",
        ),
        pytest.param(
            USUAL, [*USUAL, record("c", end_reason=EndReason.INTERRUPTED)],
            "Reduce the checkpoint interval of train/gpu or use on-demand capacity to reduce the "
            "daily cost to $4.00.",
            id="interruptions",
        ),
        pytest.param(
            USUAL, [record("a"), record("b", 4.0, started_at=at(2))],
            "Pre-pull the container images of train/gpu to reduce the daily cost to "
            "$4.00.",
            id="a slow image",
        ),
        pytest.param(
            MEASURED,
            [record(n, 4.0, gpu_summaries=(SUMMARY[0].__class__(
                gpu_id="GPU-0", samples=9, busy_ratio=0.5),)) for n in "ab"],
            "Stop the idle runs of train/gpu to reduce the daily cost to $4.00.", id="idle GPUs",
        ),
        pytest.param(
            [record("a", cpu_milli=1000, price_micro_usd_per_cpu_hour=0)],
            [record("a", cpu_milli=1000, price_micro_usd_per_cpu_hour=50_000)],
            "Reset the CPU and memory requests of train/gpu to their previous values to reduce "
            "the daily cost to $2.00.",
            id="CPU",
        ),
        pytest.param([*USUAL, record("c")], USUAL, None, id="a day that was too cheap"),
        pytest.param(USUAL, USUAL, None, id="a day as expected"),
    ],
)  # fmt: skip
def test_what_is_proposed(before: list[Record], now: list[Record], want: str | None) -> None:
    assert proposal(before, now) == want


OVER_MIDNIGHT = {"admitted_at": at(-15), "started_at": at(-15)}
"""From nine in the evening before the test day."""
FORGOTTEN = [*(record(n) for n in "abc"), long("d", 18.0)]


def test_a_limit_leaves_runs_over_midnight_alone() -> None:
    """Six hours of which three are on the day: a limit of three would stop all of them."""
    usual = [record(name, -9.0, **OVER_MIDNIGHT) for name in "abcd"]
    now = [*(record(name, -9.0, **OVER_MIDNIGHT) for name in "abc"), long("d", 18.0)]
    said = proposal(usual, now)
    assert said is not None
    assert "Set max_duration of train/gpu to 6h (longer than all previous runs)" in said


def test_a_run_that_began_the_day_before_is_cut_from_its_admission() -> None:
    """Twenty hours, eight of them before midnight: with a limit of 2 h the day has none of it."""
    began = {"admitted_at": at(-20), "started_at": at(-20)}
    now = [*(record(name) for name in "abc"), record("d", 0.0, **began)]
    assert proposal([record(name) for name in "abcd"], now) == (
        "Set max_duration of train/gpu to 2h (longer than all previous runs) to reduce the daily "
        "cost to $6.00."
    )


@pytest.mark.parametrize(
    ("on_tuesday", "want"),
    [
        pytest.param([], "to 2h", id="as long as on earlier Wednesdays"),
        pytest.param([record("w", -20.0, admitted_at=at(-28), started_at=at(-28))], "to 8h",
                     id="a run of another weekday is longer"),
    ],
)  # fmt: skip
def test_a_limit_is_longer_than_the_runs_of_all_days_before(
    on_tuesday: list[Record], want: str
) -> None:
    costs = {DAY - timedelta(days=1): costs_of(on_tuesday, DAY - timedelta(days=1))}
    for week in range(1, 5):
        day = DAY - timedelta(days=7 * week)
        moved = {"admitted_at": at(-168 * week), "started_at": at(-168 * week)}
        usual = [record(f"{name}-{week}", 2.0 - 168 * week, **moved) for name in "abcd"]
        costs[day] = costs_of(usual, day)
    costs[DAY] = costs_of(FORGOTTEN, DAY)
    _, action = Explainer(DAY, costs, END).explain(TOTAL, 24_000_000, 8_000_000)
    assert action is not None
    assert f"Set max_duration of train/gpu {want} (longer than all previous runs)" in action.text


def costs_of(records: list[Record], day: date) -> list[RunCost]:
    return [run_cost(run, attempts, END, Window.of_day(day)) for run, attempts in records]
