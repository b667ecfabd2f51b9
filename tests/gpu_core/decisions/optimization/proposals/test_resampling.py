"""Histories that are drawn vary as the days to come do, about a mean that is itself uncertain."""

import numpy as np
import pytest

from gpu_core.decisions.optimization.proposals.resampling import future_history

DRAWS = 4_000


def test_the_mean_of_days_to_come_is_as_uncertain_as_both_histories_make_it() -> None:
    """By n days that were seen and m that come: a variance of 1/n + 1/m of that of a day."""
    rng = np.random.default_rng(20261127)
    values = rng.normal(size=28)
    days = [[index] for index in range(len(values))]
    means = [values[future_history(days, 14, rng)].mean() for _ in range(DRAWS)]
    assert np.var(means) == pytest.approx(values.var(ddof=1) * (1 / 28 + 1 / 14), rel=0.1)


def test_all_runs_of_a_day_come_together() -> None:
    drawn = future_history([[1, 2], []], 50, np.random.default_rng(1))
    assert drawn.count(1) == drawn.count(2) > 0
