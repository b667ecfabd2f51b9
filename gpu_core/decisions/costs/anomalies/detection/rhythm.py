"""The rhythm of costs, by weekday or by hour of the day and of the week, and deviations from it."""

from dataclasses import dataclass

HOURS_PER_WEEK = 168


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """The seasons that points may have, and when a point is unusual. Lengths are in points."""

    seasons: tuple[int, ...]
    """Lengths of the seasons that are tried; the one that forecasts best counts. 1: no season."""
    memory: int
    """Older points are forgotten."""
    level_memory: int
    """The present level is the median of this many points."""
    first_forecast: int
    """Points before the first forecast."""
    fewest_errors: int
    """Forecasts with a known error before a point is judged."""
    sigmas: float
    """A point further than this from its forecast is unusual."""
    rarer_than: int | None
    """And so is only an error that fewer than one in so many points had; None: of any rarity."""
    is_apart_after: int
    """Ordinary points after which the next unusual one is another anomaly."""
    settles_after: int
    """An anomaly that lasts so long is the new level."""
    calm_after: int
    """Ordinary points after which a shift of the level is over."""
    watches_level: bool
    """Whether shifts and slow rises are looked for."""
    judges_drops: bool
    """Whether a point may be unusually low."""

    @property
    def season_to_see(self) -> int:
        """The season that must have been seen: what repeats every week would look like noise."""
        return self.seasons[min(1, len(self.seasons) - 1)]


# `sigmas` follows from the points of a year: were errors normal, a series had one false alarm in
# six years of days (3.5), or in four of hours, of which only the upper side counts (4).
DAILY = Rhythm(
    seasons=(1, 7),
    memory=84,  # twelve of each weekday: the forecast's own error is then a fifth of the noise
    level_memory=28,
    first_forecast=14,
    fewest_errors=7,
    sigmas=3.5,
    rarer_than=None,
    is_apart_after=1,
    settles_after=14,
    calm_after=3,
    watches_level=True,
    judges_drops=True,
)
"""One point a day."""

HOURLY = Rhythm(
    seasons=(1, 24, HOURS_PER_WEEK),
    memory=8 * HOURS_PER_WEEK,
    level_memory=HOURS_PER_WEEK,
    first_forecast=48,
    fewest_errors=HOURS_PER_WEEK,
    sigmas=4.0,
    rarer_than=30 * 24,  # single hours vary wildly: what happens every month is not worth an alert
    is_apart_after=24,
    settles_after=HOURS_PER_WEEK,
    calm_after=24,
    watches_level=False,  # hours depend on the hour before; a level is seen in days
    judges_drops=False,
)
"""One point an hour."""
