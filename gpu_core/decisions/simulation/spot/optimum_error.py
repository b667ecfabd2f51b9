"""How far can the mean optimum of some starts be trusted, and what would others have said?

What a trace costs depends most on how often spot is up in it. So two samples of starts differ above
all by that, and the optimum of one follows from the other's by a line (a control variate).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, pvariance


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimumErrors:
    """Of the mean cost of the optimum over some starts, by on-demand's."""

    standard_error: float
    """With these starts: one at random in each of equal parts of a trace."""
    at_random: float
    """The same, if as many had been drawn at random from the whole of each trace."""
    by_spot_up: float
    """How much the cost changes with the part of the time in which spot is up: least squares
    within each trace."""


def optimum_errors(
    costs: Sequence[Sequence[float]], spot_up: Sequence[Sequence[float]]
) -> OptimumErrors:
    """How far may the mean of these optima be from that of all starts, and what moves it?

    Args:
        costs: The optimum of each start in the order of starts, for each trace; as many for each.
        spot_up: The part of its time in which spot is up, likewise.
    """
    numbers = [len(trace) for trace in costs]
    return OptimumErrors(
        standard_error=_pooled(
            [_neighbors_variance(trace) / n for trace, n in zip(costs, numbers, strict=True)]
        ),
        at_random=_pooled([pvariance(trace) / n for trace, n in zip(costs, numbers, strict=True)]),
        by_spot_up=_slope(spot_up, costs),
    )


def _neighbors_variance(costs: Sequence[float]) -> float:
    """Within the parts, from the differences of neighbors, which are a part away of each other."""
    return fmean((a - b) ** 2 for a, b in pairwise(costs)) / 2 if len(costs) > 1 else 0.0


def _pooled(variances: Sequence[float]) -> float:
    """The error of the mean of several means, from theirs."""
    return math.sqrt(sum(variances)) / len(variances)


def _slope(xs: Sequence[Sequence[float]], ys: Sequence[Sequence[float]]) -> float:
    products = squares = 0.0
    for x_trace, y_trace in zip(xs, ys, strict=True):
        # From the first value on: the mean of equal values may differ from them in the last digit.
        x_offsets = [x - x_trace[0] for x in x_trace]
        x_mean, y_mean = fmean(x_offsets), fmean(y_trace)
        for x, y in zip(x_offsets, y_trace, strict=True):
            products += (x - x_mean) * (y - y_mean)
            squares += (x - x_mean) ** 2
    return products / squares if squares else 0.0
