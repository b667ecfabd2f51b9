"""What interruptions cost."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.offerings.interruption_overhead import (
    daly_overhead,
    interruption_chance,
    interval_s,
)

FOUR_HOURS_S = 4 * 3600


@pytest.mark.parametrize(
    ("save_s", "want_interval_s", "want_overhead"),
    [
        pytest.param(6, 412, 0.029, id="a save of 6 s"),
        pytest.param(60, 1275, 0.097, id="a save of a minute"),
        pytest.param(150, 1980, 0.159, id="a save of two and a half minutes"),
        pytest.param(600, 3767, 0.35, id="a save of ten minutes"),
    ],
)
def test_lives_of_four_hours(save_s, want_interval_s, want_overhead):
    """Against the exact optimum, tau = M (1 + W(-exp(-1 - delta / M))), calculated elsewhere."""
    assert interval_s(save_s, FOUR_HOURS_S) == pytest.approx(want_interval_s, rel=0.01)
    assert daly_overhead(save_s, 0, FOUR_HOURS_S) - 1 == pytest.approx(want_overhead, abs=0.006)


def test_a_save_that_outlives_the_instance_is_done_once_in_a_life():
    assert interval_s(1000, 400) == 400


def test_hopeless_is_infinite_and_not_an_overflow():
    assert daly_overhead(10, 1e6, 60) == math.inf


def test_the_chance_of_an_interruption():
    assert interruption_chance(0, 3600) == 0
    assert interruption_chance(3600, 3600) == pytest.approx(1 - 1 / math.e)


saves = st.floats(0.1, 600)
lives = st.floats(1200, 1e6)


@given(save_s=saves, life_s=lives)
def test_no_other_interval_is_much_better(save_s, life_s):
    """Daly's interval is within 1% of the best of a wide grid."""

    def overhead(tau):
        return life_s * math.expm1((tau + save_s) / life_s) / tau

    best = min(overhead(life_s * 2 ** (-n / 4)) for n in range(60))
    assert daly_overhead(save_s, 0, life_s) <= best * 1.01


@given(save_s=saves, restart_s=st.floats(0, 3600), life_s=lives)
def test_interruptions_only_cost_and_longer_lives_cost_less(save_s, restart_s, life_s):
    now = daly_overhead(save_s, restart_s, life_s)
    assert 1 < daly_overhead(save_s, restart_s, 2 * life_s) <= now
