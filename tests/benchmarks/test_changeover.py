"""A deadline holds once three starts are measured, whatever the policy says of them."""

from collections.abc import Sequence

import pytest

from benchmarks.changeover import row
from benchmarks.spot import generated
from gpu_core.decisions.simulation.spot.trace import SpotTrace

_NAME = "up 2 h, away 1 h, tail 1.5"


@pytest.fixture(scope="module")
def traces() -> Sequence[SpotTrace]:
    """Spot that is up for two hours and away for one, in the mean."""
    return generated()[_NAME]


@pytest.mark.parametrize("true_min", [18, 24])
def test_a_start_that_is_longer_than_the_policy_says_misses_nothing(
    traces: Sequence[SpotTrace], true_min: float
) -> None:
    """With the policy's 12 minutes deadlines are missed."""
    found = row(_NAME, traces, 52, true_min, starts=6)
    assert found.missed_held > 0
    assert found.missed_learning == found.missed_measured == 0


@pytest.mark.parametrize("true_min", [3, 9])
def test_a_start_that_is_shorter_than_the_policy_says_costs_no_more(
    traces: Sequence[SpotTrace], true_min: float
) -> None:
    """Slack that no changeover needs is used for waiting."""
    found = row(_NAME, traces, 52, true_min, starts=6)
    assert found.missed_held == found.missed_learning == found.missed_measured == 0
    assert found.by_held < 0.01


def test_starts_that_differ_by_a_quarter_miss_nothing(traces: Sequence[SpotTrace]) -> None:
    """The margin over the largest of few covers the next."""
    found = row(_NAME, traces, 52, 18, starts=6, spread=0.25)
    assert found.missed_measured == 0
