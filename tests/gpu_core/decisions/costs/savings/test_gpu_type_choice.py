"""Cheaper GPU types: what was measured, and what is a projection."""

from typing import Any

import pytest

from gpu_core.decisions.costs.savings.gpu_type_choice import cheaper_types
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.attempts import Attempt, EndReason, RunRecord
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.testing.builders.attempts import at, make_attempt, make_run
from tests.gpu_core.decisions.costs.savings.work import paid_attempts

DAY = Window(at(0), at(24))
Record = tuple[RunRecord, tuple[Attempt, ...]]
PRICES = {"a100-80gb": 4_000_000, "a10g": 1_000_000, "t4": 500_000}


def runs(
    gpu_type: str, hours: float, count: int, gib: int | None = None, **run: Any
) -> list[Record]:
    """So many completed runs on one GPU."""
    used = None if gib is None else gib * 2**30
    summaries = (GpuSummary(gpu_id="0", samples=9, memory_used_max_bytes=used),)
    found = []
    for number in range(count):
        name = f"{run.get('deployment', 'train/gpu')}-{gpu_type}-{number}"
        attempt = make_attempt(
            name,
            gpu_type=gpu_type,
            price_micro_usd_per_gpu_hour=PRICES[gpu_type],
            released_at=at(hours),
            end_reason=EndReason.COMPLETED,
            gpu_summaries=summaries,
        )
        found.append((make_run(name, **run), (attempt,)))
    return found


def test_runs_on_both_types_are_compared_by_their_median() -> None:
    """An hour of an A100 costs $4, and two hours of an A10G $2: four runs save $8."""
    (found,) = cheaper_types(paid_attempts([*runs("a100-80gb", 1, 4), *runs("a10g", 2, 3)]), DAY)
    assert (found.gpu_type, found.cheaper, found.runs) == ("a100-80gb", "a10g", 4)
    assert (found.is_measured, found.micro_usd, found.pays_below) == (True, 8_000_000, 4.0)


@pytest.mark.parametrize("unpriced", ["a100-80gb", "a10g"])
def test_a_run_without_a_price_hides_no_comparison_of_others(unpriced: str) -> None:
    """A run before the policy had a price says nothing of what an hour of the type costs."""
    attempt = make_attempt(
        "no-price",
        gpu_type=unpriced,
        price_micro_usd_per_gpu_hour=None,
        released_at=at(1),
        end_reason=EndReason.COMPLETED,
    )
    records = [*runs("a100-80gb", 1, 4), *runs("a10g", 2, 3), (make_run("no-price"), (attempt,))]
    (found,) = cheaper_types(paid_attempts(records), DAY)
    assert (found.cheaper, found.micro_usd, found.pays_below) == ("a10g", 8_000_000, 4.0)


@pytest.mark.parametrize(
    "records",
    [
        pytest.param([*runs("a100-80gb", 1, 4), *runs("a10g", 2, 2)], id="too few runs there"),
        pytest.param([*runs("a100-80gb", 1, 4), *runs("a10g", 4, 3)], id="it costs as much"),
        pytest.param(runs("a100-80gb", 1, 4, gib=20), id="no other type in the ledger"),
        pytest.param(
            [*runs("a100-80gb", 1, 4, gib=23), *runs("a10g", 1, 1, deployment="other/gpu")],
            id="its memory is too small",
        ),
        pytest.param(
            [*runs("a100-80gb", 1, 4), *runs("a10g", 1, 1, deployment="other/gpu")],
            id="the memory was not measured",
        ),
        pytest.param([*runs("a100-80gb", 30, 4), *runs("a10g", 30, 4)], id="none has ended yet"),
    ],
)
def test_what_says_nothing_is_no_finding(records: list[Record]) -> None:
    assert cheaper_types(paid_attempts(records), DAY) == ()


def test_a_type_that_was_not_tried_is_named_by_its_memory_and_price() -> None:
    """The runs used 20 GiB of an A100: an A10G holds them, a T4 does not."""
    others = [*runs("a10g", 1, 1, deployment="b/gpu"), *runs("t4", 1, 1, deployment="c/gpu")]
    found = cheaper_types(paid_attempts([*runs("a100-80gb", 1, 2, gib=20), *others]), DAY)
    (choice,) = [each for each in found if each.deployment == "train/gpu"]
    assert (choice.cheaper, choice.is_measured, choice.micro_usd) == ("a10g", False, None)
    assert choice.pays_below == 4.0
