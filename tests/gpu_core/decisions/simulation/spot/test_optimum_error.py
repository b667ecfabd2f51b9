"""How far the mean optimum may be off, against series whose error is known."""

import math
import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.simulation.spot.optimum_error import optimum_errors
from gpu_core.decisions.simulation.spot.trace import SpotTrace, window_starts


@pytest.mark.parametrize(
    ("costs", "want_error", "want_at_random"),
    [
        pytest.param([[0.5] * 9, [0.7] * 9], 0.0, 0.0, id="no spread within a trace"),
        # Neighbors are 1 apart: variance 1 / 2, of the mean of four 1 / 8. At random 5 / 4 / 4.
        pytest.param([[1, 2, 3, 4]], math.sqrt(1 / 8), math.sqrt(5 / 16), id="a trend"),
        pytest.param([[1, 2, 3, 4]] * 2, math.sqrt(1 / 16), math.sqrt(5 / 32), id="two traces"),
        pytest.param([[0.5]], 0.0, 0.0, id="one start has no error"),
    ],
)
def test_errors(costs: list[list[float]], want_error: float, want_at_random: float) -> None:
    """Of the mean of the traces' means."""
    found = optimum_errors(costs, costs)
    assert found.standard_error == pytest.approx(want_error)
    assert found.at_random == pytest.approx(want_at_random)


@given(
    slope=st.floats(-2, 2),
    spot_up=st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=1, max_size=4),
)
def test_the_slope_is_within_traces(slope: float, spot_up: list[list[float]]) -> None:
    """However much the traces differ from each other."""
    costs = [[n + slope * up for up in trace] for n, trace in enumerate(spot_up)]
    spread = max(max(trace) - min(trace) for trace in spot_up)
    found = optimum_errors(costs, spot_up).by_spot_up
    if spread > 1e-3:
        assert found == pytest.approx(slope, abs=1e-6)
    if spread == 0:
        assert found == 0.0


def test_the_error_is_about_what_samples_are_off() -> None:
    """A wave of costs over 1,000 starts, sampled by 20 as replays are, with 200 seeds."""
    chance = random.Random(1)
    costs = [math.sin(n / 60) + 0.2 * chance.random() for n in range(1_000)]
    trace = SpotTrace(name="wave", tick_s=600, nodes_up=(1,) * 1_001)
    samples = [[costs[start] for start in window_starts(trace, 1, 20, seed)] for seed in range(200)]
    off = math.sqrt(fmean((fmean(sample) - fmean(costs)) ** 2 for sample in samples))
    reported = fmean(optimum_errors([sample], [sample]).standard_error for sample in samples)
    at_random = fmean(optimum_errors([sample], [sample]).at_random for sample in samples)
    # Neighbors differ more than starts of one part do: it is a bound rather than a guess.
    assert off < reported < 3 * off
    assert reported < at_random
