"""Histories that are drawn vary as the days to come do, about a mean that is itself uncertain."""

import numpy as np
import pytest

from gpu_core.decisions.optimization.proposals.resampling import future_history, future_weeks

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


def test_weeks_have_each_weekday_once_in_the_order_of_the_history() -> None:
    drawn = future_weeks(28, 14, np.random.default_rng(1))
    assert sorted(day % 7 for day in drawn) == sorted([*range(7)] * 2)
    for week in (drawn[:7], drawn[7:]):
        assert week == [(week[0] + offset) % 28 for offset in range(7)]


def test_weeks_vary_more_where_days_resemble_the_days_before_them() -> None:
    """One slow wave of four weeks: days that are drawn one by one hide it."""
    rng = np.random.default_rng(2)
    values = np.sin(np.arange(28) / 28 * 2 * np.pi)
    days = [[index] for index in range(28)]
    alone = [values[future_history(days, 14, rng)].mean() for _ in range(DRAWS)]
    weekly = [values[future_weeks(28, 14, rng)].mean() for _ in range(DRAWS)]
    assert np.std(weekly) > 2 * np.std(alone)
