"""The rate of starts, from the moments at which processes were there."""

import pytest

from benchmarks.start_rate import starts_per_s


@pytest.mark.parametrize(
    ("moments_s", "want"),
    [
        pytest.param([10.0, 12.0], 0.5, id="one start, two seconds after the first"),
        pytest.param([5.0, 3.0, 4.0, 3.5, 4.5], 2.0, id="in any order"),
    ],
)
def test_starts_are_counted_from_the_first_to_the_last(moments_s: list[float], want: float) -> None:
    assert starts_per_s(moments_s) == want
