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
            "Limit runs of train/gpu to 1 at a time; a day then costs $20.00.",
            id="many long runs at once",
        ),
        pytest.param(
            [record("a", 1.0)], [record(name, 1.0) for name in "abcde"],
            "Give train/gpu a budget of $1.00 a day; a day then costs $1.00.",
            id="short runs, which a limit would only move within the day",
        ),
        pytest.param(
            [record(n) for n in "abcd"], [*(record(n) for n in "abc"), long("d", 18.0)],
            "Set max_duration of train/gpu to 2h, longer than any earlier run; "
            "a day then costs $8.00.",
            id="one run that was forgotten",
        ),
        pytest.param(
            USUAL, [record("a", 4.0), record("b", 4.0)],
            "Find out what makes runs of train/gpu longer; a day then costs $4.00.",
            id="all runs take longer: a limit would stop them all",
        ),
        pytest.param(
            USUAL, [record("a", gpus=2), record("b", gpus=2)],
            "Set gpu_count of train/gpu back to 1; a day then costs $4.00.", id="more GPUs",
        ),
        pytest.param(
            USUAL, [*USUAL, record("new", deployment="sweep/gpu")],
            "Pause sweep/gpu, or give it a budget; a day then costs $4.00.", id="new",
        ),
        pytest.param(
            SPOT, [record(name, price_micro_usd_per_gpu_hour=3_000_000) for name in "ab"],
            "Move train/gpu back to spot; a day then costs $4.00.", id="on-demand",
        ),
        pytest.param(
            ZONED,
            [record(n, zone="zone-b", price_micro_usd_per_gpu_hour=2_000_000) for n in "ab"],
            "Move train/gpu back to zone-a; a day then costs $4.00.", id="a dearer zone",
        ),
        pytest.param(
            USUAL, [record(n, gpu_type="h100", price_micro_usd_per_gpu_hour=3_000_000)
                    for n in "ab"],
            "Set gpu_type of train/gpu back to a10g; a day then costs $4.00.",
            id="another GPU type",
        ),
        pytest.param(
            [*USUAL, record("e", deployment="eval/gpu")],
            [record(name, price_micro_usd_per_gpu_hour=2_000_000, deployment=deployment)
             for name, deployment in (("a", "train/gpu"), ("b", "train/gpu"), ("e", "eval/gpu"))],
            "Move train/gpu and others to offerings at the earlier price; a day then costs $6.00.",
            id="a price of several deployments",
        ),
        pytest.param(
            USUAL, [*USUAL, record("c", end_reason=EndReason.FAILED, number=2)],
            "Fix what makes runs of train/gpu fail, or retry them less often; "
            "a day then costs $4.00.",
            id="retries",
        ),
        pytest.param(
            USUAL, [*USUAL, record("c", end_reason=EndReason.CRASHED)],
            "Fix what makes runs of train/gpu fail; a day then costs $4.00.", id="a failed run",
        ),
        pytest.param(
            USUAL, [*USUAL, record("c", end_reason=EndReason.INTERRUPTED)],
            "Save checkpoints of train/gpu more often, or run it on-demand; "
            "a day then costs $4.00.",
            id="interruptions",
        ),
        pytest.param(
            USUAL, [record("a"), record("b", 4.0, started_at=at(2))],
            "Pull images of train/gpu before its runs start; a day then costs $4.00.",
            id="a slow image",
        ),
        pytest.param(
            MEASURED,
            [record(n, 4.0, gpu_summaries=(SUMMARY[0].__class__(
                gpu_id="GPU-0", samples=9, busy_ratio=0.5),)) for n in "ab"],
            "Stop the idle runs of train/gpu; a day then costs $4.00.", id="idle GPUs",
        ),
        pytest.param(
            [record("a", cpu_milli=1000, price_micro_usd_per_cpu_hour=0)],
            [record("a", cpu_milli=1000, price_micro_usd_per_cpu_hour=50_000)],
            "Request as much CPU and memory for train/gpu as before; a day then costs $2.00.",
            id="CPU",
        ),
        pytest.param([*USUAL, record("c")], USUAL, None, id="a day that was too cheap"),
        pytest.param(USUAL, USUAL, None, id="a day as expected"),
    ],
)  # fmt: skip
def test_what_is_proposed(before: list[Record], now: list[Record], want: str | None) -> None:
    assert proposal(before, now) == want
