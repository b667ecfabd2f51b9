"""The points of a cost series that are unusual: spikes, drops, shifts of the level, slow rises.

Each point is judged by the points before it alone: a past day is judged today as it was then.
"""

from calendar import monthrange
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum

import numpy as np

from gpu_core.decisions.costs.anomalies.detection.baseline import (
    Baseline,
    Expectation,
    Floats,
    median,
)
from gpu_core.decisions.costs.anomalies.detection.rhythm import DAILY, Rhythm
from gpu_core.decisions.model.errors import InvalidInput

LEAST_PERCENT = 20
"""A point within 20% of what was expected is not worth an alert, however steady its series is."""
LEAST_SHIFT_PERCENT = 10
"""The same for a level that lasts."""

# Page's cumulative sum of errors in standard deviations, less an allowance of 1, up to 4: a level
# that is 3 away is seen in three days, and by chance that happens once in 15,000 days (Siegmund's
# approximation, "Sequential Analysis", 1985, section II.4).
_ALLOWANCE = 1.0
_LIMIT = 4.0
_MOST_OF_ONE = 3.0
_FEWEST_OF_RISE = 5
_SHARE_OF_RISE = 0.6
"""A rise from nothing has twice its mean, a step has none."""
_NEAR = 2
_MONTHS_DAYS = 100
"""Three months, as day numbers."""


class AnomalyKind(StrEnum):
    """The way in which a series is unusual. Stable: alerts match on it."""

    SPIKE = "Spike"
    DROP = "Drop"
    LEVEL_SHIFT = "LevelShift"
    SLOW_RISE = "SlowRise"
    NEW_SERIES = "NewSeries"
    """It has no history, and is dear compared with its budget or its peers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPoint:
    """The judgment of one point of a series."""

    value: int | None
    """The actual value; None where it is unknown."""
    expected: int | None = None
    """The expected value; None: it was planned, or too little is known."""
    sigmas: float | None = None
    """The distance of the two, of their logarithms, in standard deviations of earlier distances."""
    kind: AnomalyKind | None = None
    """The kind of anomaly; None: nothing is unusual."""
    since: int | None = None
    """The index of the anomaly's first point."""
    is_new: bool = False
    """Whether this point is the first one reported of the anomaly: only it sends alerts."""


def detect(
    values: Sequence[int | None],
    rhythm: Rhythm = DAILY,
    *,
    floor: int,
    first_day: date | None = None,
    planned: Collection[int] = (),
) -> tuple[JudgedPoint, ...]:
    """Each point of the series with its verdict: ordinary or unusual.

    Args:
        values: One for each day or hour, in order, such as micro-USD. A negative one is a
            correction of other days and, like None, neither judged nor learned from.
        rhythm: Days or hours.
        floor: Smaller differences are not worth an alert, 1 or more, in the unit of the values.
        first_day: The date of the first value of days: the ends of months are then compared with
            those of earlier months.
        planned: Indexes of points with activity that was announced: not judged, not learned from.

    Raises:
        InvalidInput: The floor is below 1.
    """
    if floor < 1:
        raise InvalidInput("floor", "is out of range", got=floor, allowed="1 or more")
    watch = _Watch(values, rhythm, floor, first_day)
    skipped = set(planned)
    return tuple(watch.judge(at, is_planned=at in skipped) for at in range(len(values)))


@dataclass(slots=True)
class _Event:
    """An anomaly that is not over."""

    kind: AnomalyKind
    sign: int
    first: int
    last: int
    calm: int = 0

    @property
    def is_level(self) -> bool:
        return self.kind in (AnomalyKind.LEVEL_SHIFT, AnomalyKind.SLOW_RISE)


@dataclass(frozen=True, slots=True)
class _Point:
    """A point and what was expected of it; `limit`: from how many sigmas it is unusual."""

    at: int
    value: int
    expected: int
    error: float
    sigmas: float
    limit: float


@dataclass(frozen=True, slots=True)
class _Flag:
    kind: AnomalyKind
    since: int
    is_new: bool


class _Watch:
    """Goes through the series, and remembers the anomaly that it is in."""

    def __init__(
        self, values: Sequence[int | None], rhythm: Rhythm, floor: int, first_day: date | None
    ) -> None:
        self._values = values
        self._rhythm = rhythm
        self._floor = floor
        known = [np.nan if value is None or value < 0 else value for value in values]
        self._logs: Floats = np.log(np.array(known, dtype=np.float64) + floor)
        self._baseline = Baseline(self._logs, rhythm)
        self._near_month_end = _near_month_end(first_day, len(values))
        self._raw_errors: dict[int, float] = {}
        self._points: dict[int, _Point] = {}
        self._event: _Event | None = None
        self._signs = (1, -1) if rhythm.judges_drops else (1,)
        self._sums = dict.fromkeys((1, -1), 0.0)
        self._sum_since = dict.fromkeys((1, -1), 0)

    def judge(self, at: int, *, is_planned: bool) -> JudgedPoint:
        value = self._values[at]
        expected = self._baseline.expect(at)
        if is_planned or value is None or value < 0:
            return JudgedPoint(value=value)
        if expected is None:
            self._baseline.learn(at, is_ordinary=True)
            return JudgedPoint(value=value)
        point = self._points[at] = self._point(at, value, expected)
        flag = self._flag(point)
        return JudgedPoint(
            value=value,
            expected=point.expected,
            sigmas=point.sigmas,
            kind=flag.kind if flag else None,
            since=flag.since if flag else None,
            is_new=flag is not None and flag.is_new,
        )

    def _point(self, at: int, value: int, expected: Expectation) -> _Point:
        error = self._raw_errors[at] = float(self._logs[at]) - expected.log
        error = self._less_month_ends(at, error)
        amount = round(float(np.exp(self._logs[at] - error))) - self._floor
        return _Point(
            at=at,
            value=value,
            expected=max(0, amount),
            error=error,
            sigmas=error / expected.scale,
            limit=self._limit(at, expected),
        )

    def _limit(self, at: int, expected: Expectation) -> float:
        """The number of standard deviations from which a point is unusual.

        The scale of few errors is uncertain itself, which Student's t takes into account: the first
        term of its expansion (Abramowitz and Stegun, 26.7.5).
        """
        sigmas = self._rhythm.sigmas
        limit = sigmas * (1 + (sigmas**2 + 1) / (4 * expected.errors))
        if self._rhythm.rarer_than is None:
            return limit
        usual = self._baseline.error_of_one_in(self._rhythm.rarer_than, at, expected)
        return max(limit, usual / expected.scale)

    def _less_month_ends(self, at: int, error: float) -> float:
        """The error less those of the same day near the end of earlier months, if that is less.

        They count only where they agree: what happened in one month of three is no habit.
        """
        place = self._near_month_end[at]
        if place is None:
            return error
        earlier = [
            self._raw_errors[before]
            for before in range(max(0, at - _MONTHS_DAYS), at)
            if self._near_month_end[before] == place and before in self._raw_errors
        ]
        if not earlier or min(earlier) <= 0 <= max(earlier):
            return error
        return min(error, error - median(np.array(earlier)), key=abs)

    def _flag(self, point: _Point) -> _Flag | None:
        if self._event is not None and self._event.is_level:
            return self._during_shift(self._event, point)
        sign = self._unusual(point)
        self._add_up(point, sign)
        shift = self._shift(point)
        if shift is not None:
            return self._begin_shift(shift, point)
        if sign:
            return self._spike(point, sign)
        self._baseline.learn(point.at, is_ordinary=True)
        if self._event is not None and point.at - self._event.last >= self._rhythm.is_apart_after:
            self._event = None
        return None

    def _unusual(self, point: _Point) -> int:
        """1: unusually high, -1: unusually low, 0: ordinary."""
        excess = point.value - point.expected
        if abs(excess) <= self._floor or abs(excess) * 100 <= point.expected * LEAST_PERCENT:
            return 0
        sign = 1 if excess > 0 else -1
        return sign if sign in self._signs and sign * point.sigmas > point.limit else 0

    def _add_up(self, point: _Point, unusual: int) -> None:
        if unusual and self._event is None:
            return  # a single spike is no level
        for sign in self._signs:
            if not self._sums[sign]:
                self._sum_since[sign] = point.at
            step = float(np.clip(sign * point.sigmas, -_MOST_OF_ONE, _MOST_OF_ONE)) - _ALLOWANCE
            self._sums[sign] = max(0.0, self._sums[sign] + step)

    def _shift(self, point: _Point) -> _Event | None:
        if not self._rhythm.watches_level:
            return None
        for sign in self._signs:
            first = self._sum_since[sign]
            if self._sums[sign] <= _LIMIT:
                continue
            if self._event is not None and self._event.sign == sign:
                first = min(first, self._event.first)
            points = self._points_since(first, point.at)
            expected = sum(each.expected for each in points)
            excess = sign * (sum(each.value for each in points) - expected)
            if excess > self._floor * len(points) and excess * 100 > expected * LEAST_SHIFT_PERCENT:
                return _Event(_level_kind(points, sign), sign, first, point.at)
        return None

    def _begin_shift(self, shift: _Event, point: _Point) -> _Flag:
        is_new = self._event is None or self._event.sign != shift.sign
        self._event = shift
        self._reset_sums()
        self._baseline.learn(point.at, is_ordinary=False)
        self._baseline.forget(shift.first, point.at + 1)
        return _Flag(shift.kind, shift.first, is_new)

    def _during_shift(self, shift: _Event, point: _Point) -> _Flag | None:
        self._baseline.learn(point.at, is_ordinary=False)
        is_calm = abs(point.sigmas) < self._rhythm.sigmas / 2
        shift.calm = shift.calm + 1 if is_calm else 0
        shift.last = point.at
        if shift.calm >= self._rhythm.calm_after:
            self._baseline.learn_late(point.at - shift.calm + 1, point.at + 1)
            self._end_event()
            return None
        shift.kind = _level_kind(self._points_since(shift.first, point.at), shift.sign)
        self._settle(shift)
        return _Flag(shift.kind, shift.first, is_new=False)

    def _points_since(self, first: int, last: int) -> list[_Point]:
        return [self._points[at] for at in range(first, last + 1) if at in self._points]

    def _spike(self, point: _Point, sign: int) -> _Flag:
        event = self._event
        self._baseline.learn(point.at, is_ordinary=False)
        is_new = event is None or event.sign != sign
        if event is None or is_new:
            kind = AnomalyKind.SPIKE if sign > 0 else AnomalyKind.DROP
            event = self._event = _Event(kind, sign, point.at, point.at)
        event.last = point.at
        self._settle(event)
        return _Flag(event.kind, event.first, is_new)

    def _settle(self, event: _Event) -> None:
        if event.last - event.first >= self._rhythm.settles_after:
            self._baseline.learn_late(event.first, event.last + 1, is_new_level=True)
            self._end_event()

    def _end_event(self) -> None:
        self._event = None
        self._reset_sums()

    def _reset_sums(self) -> None:
        self._sums = dict.fromkeys(self._sums, 0.0)


def _level_kind(points: Sequence[_Point], sign: int) -> AnomalyKind:
    """The kind of a changed level: one that was there at once, or one that still rises."""
    errors = np.array([each.error for each in points])
    if sign < 0 or len(errors) < _FEWEST_OF_RISE:
        return AnomalyKind.LEVEL_SHIFT
    slope = float(np.polyfit(np.arange(len(errors)), errors, 1)[0])
    rises = slope * (len(errors) - 1) > _SHARE_OF_RISE * float(errors.mean())
    return AnomalyKind.SLOW_RISE if rises else AnomalyKind.LEVEL_SHIFT


def _near_month_end(first_day: date | None, count: int) -> list[int | None]:
    """The place of each day near the end of a month: 1 and 2 after it, -1 and -2 before it."""
    if first_day is None:
        return [None] * count
    places: list[int | None] = []
    for offset in range(count):
        day = first_day + timedelta(days=offset)
        left = monthrange(day.year, day.month)[1] - day.day
        places.append(day.day if day.day <= _NEAR else -1 - left if left < _NEAR else None)
    return places
