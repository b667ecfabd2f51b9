"""The mean of many simulations, against what is known in closed form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.optimization.proposals.interruption_model import simulated_held_s
from gpu_core.decisions.optimization.proposals.mean_held import mean_held, mean_held_with_interval


def numbers(*values):
    return np.array(values, dtype=np.float64)


@pytest.mark.parametrize("per_hour", [0.0, 1e-12, 0.05, 0.5])
def test_without_checkpoints_simulations_give_the_mean_that_is_known(per_hour):
    work_s, startup_s, rates = numbers(600, 7200), numbers(60, 120), numbers(per_hour, per_hour)
    rng = np.random.default_rng(3)
    known = mean_held_with_interval(work_s, rates, startup_s, None, 2, rng)
    simulated = mean_held(
        lambda runs: simulated_held_s(work_s[runs], rates[runs], startup_s[runs], None, rng),
        *(2, 50_000),
    )
    assert not known.error_s.any()
    # Four standard errors: one chance in 16,000.
    assert (abs(simulated.mean_s - known.mean_s) <= 4 * simulated.error_s + 1e-6).all()


@given(work_s=st.floats(0, 1e6), per_hour=st.floats(0, 100), startup_s=st.floats(0, 600))
def test_the_known_mean_is_finite_and_not_below_the_work(work_s, per_hour, startup_s):
    """Also where no attempt would ever last long enough."""
    found = mean_held_with_interval(
        numbers(work_s), numbers(per_hour), numbers(startup_s), None, 2, np.random.default_rng(1)
    )
    assert np.isfinite(found.mean_s).all()
    least_s = min(work_s + startup_s, 10_000 * 3600 / per_hour) if per_hour else work_s + startup_s
    assert found.mean_s[0] >= least_s * (1 - 1e-9)


def test_the_standard_error_falls_with_the_root_of_the_simulations():
    work_s, startup_s, rates = np.full(50, 7200.0), np.full(50, 60.0), np.full(50, 0.5)
    few, many = (
        mean_held_with_interval(
            *(work_s, rates, startup_s, 600.0, simulations), np.random.default_rng(2)
        )
        for simulations in (100, 10_000)
    )
    assert many.error_s.mean() == pytest.approx(few.error_s.mean() / 10, rel=0.1)
    # The fifty runs are alike: their means differ by chance alone.
    assert few.mean_s.std() == pytest.approx(few.error_s.mean(), rel=0.3)
