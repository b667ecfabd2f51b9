"""Repeated measurements: the interval of their mean, and which of two means is lower.

Few repeats, each the mean of many inferences: Student's t for the interval, and Welch's test for
two configurations that vary differently (Welch, Biometrika 34, 1947).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
"""Of intervals, and of all comparisons of one experiment together."""

_MOST_T = 1e6
"""Beyond it no quantile is searched: with one degree of freedom 0.9999997 lies below it."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(96)


def logarithms(values: Sequence[float]) -> tuple[float, ...]:
    """Costs and latencies as they are compared: a slow machine multiplies them.

    Args:
        values: Over 0.
    """
    return tuple(math.log(value) for value in values)


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its confidence interval."""

    low: float
    mean: float
    high: float


def mean_of(values: Sequence[float]) -> float:
    """The mean of one repeat at least; equal values have exactly that value."""
    return min(max(math.fsum(values) / len(values), min(values)), max(values))


def mean_interval(values: Sequence[float]) -> Interval | None:
    """The bounds of the mean, at 95%; None: one repeat says nothing of it.

    Args:
        values: One number for each repeat, finite.
    """
    if len(values) < 2:
        return None
    mean = mean_of(values)
    half = t_quantile(1 - (1 - CONFIDENCE) / 2, len(values) - 1) * math.sqrt(_variance(values))
    half /= math.sqrt(len(values))
    return Interval(mean - half, mean, mean + half)


def is_lower(
    one: Sequence[float],
    other: Sequence[float],
    comparisons: int = 1,
    false_part: float = 1 - CONFIDENCE,
) -> bool:
    """Is the mean of the one lower than that of the other, beyond noise?

    Two-sided, for all comparisons together (Bonferroni). With fewer than two repeats of either
    nothing is beyond noise.

    Args:
        one: One number for each repeat, finite.
        other: The same of the other configuration.
        comparisons: How many are made in the experiment, 1 or more.
        false_part: Of experiments in which only noise varies: how many may name a difference.
    """
    if min(len(one), len(other)) < 2:
        return False
    found = difference(one, other)
    if found.gap <= 0 or found.error == 0:
        return found.gap > 0
    return found.gap > found.error * t_quantile(1 - false_part / 2 / comparisons, found.freedom)


@dataclass(frozen=True, slots=True)
class Difference:
    """How much lower one mean is than another."""

    gap: float
    """Negative: it is higher."""
    error: float
    """The standard error of the gap."""
    freedom: float
    """Degrees of freedom by Welch and Satterthwaite; infinite where nothing varies."""


def difference(one: Sequence[float], other: Sequence[float]) -> Difference:
    """How much lower is the mean of the one, and how sure is that?

    Args:
        one: Two numbers at least, finite.
        other: The same of the other configuration.
    """
    gap = mean_of(other) - mean_of(one)
    parts = [_variance(values) / len(values) for values in (one, other)]
    if not any(parts):
        return Difference(gap, 0.0, math.inf)
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(values) - 1) for part, values in zip(parts, (one, other), strict=True)
    )
    return Difference(gap, math.sqrt(sum(parts)), freedom)


def leaders(samples: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    """The configurations that may have the lowest mean. One alone is the winner.

    The one with the lowest mean, and all that it is not lower than beyond noise. It is chosen
    after the measurement, so that all pairs count as comparisons.

    Args:
        samples: The repeats of each configuration; one configuration at least.
    """
    best = min(samples, key=lambda name: (mean_of(samples[name]), name))
    pairs = max(1, len(samples) * (len(samples) - 1) // 2)
    return tuple(
        name
        for name, values in samples.items()
        if name == best or not is_lower(samples[best], values, pairs)
    )


def pareto_front(points: Mapping[str, Sequence[Sequence[float]]]) -> tuple[str, ...]:
    """The configurations that no other one dominates.

    One dominates another if its mean is not higher in any objective, and lower beyond noise in one
    at least. What is only a little better in all of them dominates nothing.

    Args:
        points: The repeats of each configuration in each objective, of which less is better. All
            have the same objectives in the same order.
    """
    objectives = len(next(iter(points.values()), ()))
    comparisons = max(1, objectives * len(points) * (len(points) - 1) // 2)
    return tuple(
        name
        for name, own in points.items()
        if not any(
            _dominates(other, own, comparisons)
            for other_name, other in points.items()
            if other_name != name
        )
    )


def _dominates(
    one: Sequence[Sequence[float]], other: Sequence[Sequence[float]], comparisons: int
) -> bool:
    pairs = list(zip(one, other, strict=True))
    return all(mean_of(mine) <= mean_of(its) for mine, its in pairs) and any(
        is_lower(mine, its, comparisons) for mine, its in pairs
    )


def _variance(values: Sequence[float]) -> float:
    mean = mean_of(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def t_quantile(probability: float, freedom: float) -> float:
    """The value that a variable of Student's t distribution stays below with this probability.

    Args:
        probability: 0.5 up to below 1.
        freedom: Degrees of freedom, 1 or more, also between whole numbers.
    """
    low, high = 0.0, 1.0
    while _t_below(high, freedom) < probability and high < _MOST_T:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _t_below(middle, freedom) < probability else (low, middle)
    return high


def _t_below(t: float, freedom: float) -> float:
    """The distribution function for t of 0 or more, by x = sqrt(freedom) tan(angle)."""
    widest = math.atan(t / math.sqrt(freedom))
    angles = (_NODES + 1) / 2 * widest
    area = float(_WEIGHTS @ np.cos(angles) ** (freedom - 1)) / 2 * widest
    log_scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    return 0.5 + area * math.exp(log_scale) / math.sqrt(math.pi)
