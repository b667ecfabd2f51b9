"""A proposal names a setting and what the day would have cost with it."""

from typing import Any

import pytest

from gpu_core.decisions.costs.anomalies.decomposition.actions import propose
from gpu_core.decisions.costs.anomalies.decomposition.decomposition import decompose
from gpu_core.decisions.costs.usage.usage import round_half_up
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.testing.builders.attempts import at
from tests.gpu_core.decisions.costs.anomalies.decomposition.test_decomposition import (
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
