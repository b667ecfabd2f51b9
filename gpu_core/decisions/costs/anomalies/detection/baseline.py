"""The cost of an ordinary point: a season, a level and a scale, of logarithms.

Costs vary in proportion to their size, so their logarithms vary evenly. Medians keep a dear day
from moving the forecast (Rousseeuw and Hubert, "Robust statistics for outlier detection", 2011).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_core.decisions.costs.anomalies.detection.rhythm import Rhythm

Floats = NDArray[np.float64]

LEAST_SCALE = 0.05
"""Costs that vary by less than 5% are taken to vary by 5%: less is worth no attention."""
_NORMAL_MAD = 1.4826
"""A normal distribution's standard deviation as a multiple of its median absolute deviation."""
_CORE = 3.0
_FEWEST_OF_LEVEL = 3


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected value of a point.

    Attributes:
        log: The logarithm of the expected value.
        scale: The standard deviation of the errors of such forecasts.
        errors: How many errors it was estimated from.
        season: The length of the season that has forecast best.
    """

    log: float
    scale: float
    errors: int
    season: int


class Baseline:
    """Forecasts each point from the ordinary points before it.

    Args:
        logs: The series' logarithms; NaN where nothing is known.
        rhythm: The seasons that are tried.
    """

    def __init__(self, logs: Floats, rhythm: Rhythm) -> None:
        self._logs = logs
        self._at_level = logs.copy()  # what came before a new level, moved to it
        self._rhythm = rhythm
        self._is_ordinary = np.zeros(len(logs), dtype=bool)
        self._is_known = np.zeros(len(logs), dtype=bool)
        self._medians = {p: np.full(p, np.nan) for p in rhythm.seasons}
        self._forecasts = {p: np.full(len(logs), np.nan) for p in rhythm.seasons}

    def expect(self, at: int) -> Expectation | None:
        """The expected value of this point; None: too little is known.

        Ask once for each point, in order, before `learn`.
        """
        self._forecast(at)
        rhythm = self._rhythm
        since = max(0, at - rhythm.memory)
        best: tuple[float, int] | None = None
        for season in rhythm.seasons:
            errors = self._errors(season, since, at)[self._is_known[since:at]]
            errors = errors[np.isfinite(errors)]
            if len(errors) < rhythm.fewest_errors:
                if season == rhythm.season_to_see:
                    return None
                continue
            mean = float(np.abs(errors).mean())
            if np.isfinite(self._forecasts[season][at]) and (best is None or mean < best[0]):
                best = (mean, season)
        return None if best is None else self._expectation(best[1], since, at)

    def error_of_one_in(self, points: int, at: int, expected: Expectation) -> float:
        """The error that one in `points` points before this one exceeds, ordinary or not."""
        since = max(0, at - self._rhythm.memory)
        errors = self._errors(expected.season, since, at)[self._is_known[since:at]]
        return float(np.quantile(errors[np.isfinite(errors)], 1 - 1 / points))

    def learn(self, at: int, *, is_ordinary: bool) -> None:
        """Take note of a point; only ordinary ones move the forecasts."""
        self._is_known[at] = True
        if is_ordinary:
            self._is_ordinary[at] = True
            self._update(at, at)

    def forget(self, first: int, until: int) -> None:
        """Points that were taken for ordinary are not: they move no forecast any more."""
        self._is_ordinary[first:until] = False
        self._update_all(until)

    def learn_late(self, first: int, until: int, *, is_new_level: bool = False) -> None:
        """Points of an anomaly are ordinary after all, from now on.

        Args:
            is_new_level: The points before them are moved to their level: they show the season.
        """
        if is_new_level:
            self._at_level[:first] += self._distance(first, until)
        self._is_ordinary[first:until] = True
        for forecasts in self._forecasts.values():
            forecasts[first:until] = np.nan  # made from another level, they say nothing of errors
        self._update_all(until)

    def _distance(self, first: int, until: int) -> float:
        errors = self._errors(self._rhythm.season_to_see, first, until)
        errors = errors[np.isfinite(errors)]
        return median(errors) if len(errors) else 0.0

    def _forecast(self, at: int) -> None:
        rhythm = self._rhythm
        if at < rhythm.first_forecast:
            return
        places = self._ordinary(max(0, at - rhythm.level_memory), at)
        if len(places) < _FEWEST_OF_LEVEL:
            places = self._ordinary(max(0, at - rhythm.memory), at)[-rhythm.level_memory :]
        for season, medians in self._medians.items():
            levels = self._at_level[places] - medians[places % season]
            levels = levels[np.isfinite(levels)]
            if len(levels):
                self._forecasts[season][at] = medians[at % season] + median(levels)

    def _ordinary(self, since: int, until: int) -> NDArray[np.intp]:
        return since + np.flatnonzero(self._is_ordinary[since:until])

    def _errors(self, season: int, since: int, until: int) -> Floats:
        errors: Floats = self._logs[since:until] - self._forecasts[season][since:until]
        return errors

    def _expectation(self, season: int, since: int, at: int) -> Expectation | None:
        errors = self._errors(season, since, at)[self._is_ordinary[since:at]]
        errors = errors[np.isfinite(errors)]
        if len(errors) < self._rhythm.fewest_errors:
            return None
        scale = max(LEAST_SCALE, _NORMAL_MAD * median(np.abs(errors)))
        # The median finds the core, whose mean square then wastes less of few errors.
        core = errors[np.abs(errors) <= _CORE * scale]
        scale = max(LEAST_SCALE, float(np.sqrt(np.mean(core**2))))
        return Expectation(float(self._forecasts[season][at]), scale, len(errors), season)

    def _update(self, at: int, last: int) -> None:
        """The medians of the classes that this point is in, of what is known up to the last."""
        for season, medians in self._medians.items():
            since = max(0, last + 1 - self._rhythm.memory)
            of_class = slice(since + (at - since) % season, last + 1, season)
            logs = self._at_level[of_class][self._is_ordinary[of_class]]
            medians[at % season] = median(logs) if len(logs) else np.nan

    def _update_all(self, until: int) -> None:
        for at in range(max(self._rhythm.seasons)):
            self._update(at, until - 1)


def median(values: Floats) -> float:
    """The median of at least one number; `numpy.median` takes five times as long for a few."""
    middle = len(values) // 2
    if len(values) % 2:
        return float(np.partition(values, middle)[middle])
    parted = np.partition(values, (middle - 1, middle))
    return float(parted[middle - 1] + parted[middle]) / 2
