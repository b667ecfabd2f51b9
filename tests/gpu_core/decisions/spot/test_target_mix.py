"""A target mix of spot and on-demand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.spot.target_mix import choose_for_mix


@pytest.mark.parametrize(
    ("spot", "on_demand", "own", "target", "want"),
    [
        pytest.param(0, 0, 1, 0.7, "spot", id="the first of 70%"),
        pytest.param(0, 0, 1, 0.3, "on-demand", id="the first of 30%"),
        pytest.param(7, 2, 1, 0.7, "on-demand", id="7 of 9: on-demand makes it 7 of 10"),
        pytest.param(6, 3, 1, 0.7, "spot", id="6 of 9: spot makes it 7 of 10"),
        pytest.param(5, 5, 100, 0.0, "on-demand", id="no spot"),
        pytest.param(5, 5, 100, 1.0, "spot", id="only spot"),
        pytest.param(1, 0, 1, 0.75, "spot", id="as near both ways: spot"),
    ],
)
def test_the_choice(spot: float, on_demand: float, own: float, target: float, want: str) -> None:
    """Nearer to the target."""
    assert choose_for_mix(spot, on_demand, own, target).capacity_type == want


def test_it_says_why() -> None:
    """With the mix that follows."""
    assert choose_for_mix(7, 2, 1, 0.7).reason == (
        "on-demand: 70% of the GPUs will be on spot, with a target of 70%"
    )


@given(target=st.floats(0, 1), sizes=st.lists(st.integers(1, 8), min_size=1, max_size=60))
def test_the_mix_stays_within_one_workload_of_its_target(target: float, sizes: list[int]) -> None:
    """Whatever comes in whatever order: half of the largest workload."""
    held = {"spot": 0, "on-demand": 0}
    for size in sizes:
        held[choose_for_mix(held["spot"], held["on-demand"], size, target).capacity_type] += size
        excess = held["spot"] - target * sum(held.values())
        assert abs(excess) <= max(sizes) / 2 + 1e-6
