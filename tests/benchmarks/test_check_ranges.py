"""The check of results against their ranges."""

import json

import pytest

from benchmarks.check_ranges import RANGES, out_of_range, recorded

RECORDED = recorded({"fifo": {"mean_wait_s": 1000.0}}, "2026-09-01")


@pytest.mark.parametrize(
    ("value", "is_fine"),
    [(1000.0, True), (1000.9, True), (999.1, True), (1001.1, False), (998.9, False)],
)
def test_a_result_is_within_its_margin(value: float, is_fine: bool) -> None:
    """A tenth of a percent either way; a change for the better is noticed too."""
    assert (out_of_range({"fifo": {"mean_wait_s": value}}, RECORDED) == []) is is_fine


def test_a_result_without_a_range_is_named() -> None:
    """Nothing passes because it is not known."""
    (problem,) = out_of_range({"fifo": {"jain": 0.5}}, RECORDED)
    assert "jain" in problem


def test_the_recorded_ranges_are_complete() -> None:
    """Each has mean, spread, margin and date."""
    for metrics in json.loads(RANGES.read_text()).values():
        for known in metrics.values():
            assert set(known) == {"mean", "spread", "margin", "date"}
