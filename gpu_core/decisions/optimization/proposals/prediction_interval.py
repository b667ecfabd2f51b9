"""The mean of some weeks to come, from few that were seen."""

import math
from typing import NamedTuple

from gpu_core.decisions.optimization.experiments.repeats import t_quantile
from gpu_core.decisions.optimization.proposals.interruption_model import Numbers

_HIGH = 0.9
"""Probability to stay below the upper end: 80% lie between both ends."""


class Predicted(NamedTuple):
    """The mean of the weeks to come, and the ends of the interval that holds it in 80%."""

    low: Numbers
    expected: Numbers
    high: Numbers


def predicted_mean(weeks: Numbers, future: int) -> Predicted:
    """The mean of weeks to come, by Student's prediction interval.

    The mean of m future values of a normal distribution, from n seen ones with a deviation of s: t
    s sqrt(1/m + 1/n) about the mean, with t of n - 1 degrees of freedom (Hahn and Meeker,
    Statistical Intervals, 1991, chapter 4). A bootstrap of four weeks is too narrow: by
    sqrt(3/4), and as it has no tails beyond what was seen (Efron and Tibshirani, An Introduction to
    the Bootstrap, 1993, section 12.5).

    Args:
        weeks: A row for each week, 2 or more; a column for each quantity.
        future: Weeks to come, 1 or more.
    """
    expected: Numbers = weeks.mean(axis=0)
    deviation = weeks.std(axis=0, ddof=1)
    half = t_quantile(_HIGH, len(weeks) - 1) * deviation * math.sqrt(1 / future + 1 / len(weeks))
    return Predicted(expected - half, expected, expected + half)
