"""How long will spot stay up, or away? Lifetimes whose hazard falls with age, learned online.

The law is Lomax's (Pareto II): `hazard(age) = shape / (age + scale)`. What has just come often goes
at once, what has lasted lasts. The scale is fixed and the shape is learned: with a gamma prior the
posterior mean is `(prior weight + ends) / (prior weight / prior shape + Σ ln(1 + life / scale))`,
where lives that still continue are in the sum but are no end.

The priors are from four of the eight AWS traces of "Can't Be Late" (Wu et al., NSDI'24), those of
zone us-west-2a, October 2022, their first 13 days: 409 times up, 410 times away. Of those that had
lasted 0, 10, 20, 30 and 60 minutes 33, 23, 14, 13 and 10% ended within the next 10; the law says
35, 23, 17, 14 and 9%.
"""

import math
from dataclasses import dataclass

from gpu_core.decisions.model.units import SECONDS_PER_HOUR

LIFE_SCALE_S = 12 * 60.0
UP_SHAPE = 0.7
AWAY_SHAPE = 0.9
MEAN_UP_S = 1.95 * SECONDS_PER_HOUR
"""The mean of the same times up."""
MEAN_UP_WEIGHT = 0.25
"""How many lives of that length count where the value of a stay is weighed. Of 1, 1/2, 1/4 and 1/10
on us-west-2a: a quarter costs at most 0.5% more than 1, and is in vain a quarter as often where
spot always goes at once."""
LIVES_KEPT = 20
CYCLE_S = 3.2 * SECONDS_PER_HOUR
"""From one time up to the next, in the mean of the same traces."""
SHAPE_WEIGHT = 10.0
"""How many lives the prior of a shape counts as."""
CYCLE_WEIGHT = 4.0
"""How many cycles the prior of their length counts as."""


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Lifetimes that ended: all that the law needs to know of them."""

    ends: int = 0
    exposure: float = 0.0
    """Sum of `ln(1 + life / scale)`."""
    latest_s: tuple[float, ...] = ()
    """The latest twenty lives, oldest first. One that was left before it ended is taken to have
    gone on for as long as an ordinary one."""

    def ended(self, life_s: float) -> "Lifetimes":
        """These and one more."""
        return Lifetimes(
            self.ends + 1, self.exposure + _exposure(life_s), self._latest_with(life_s)
        )

    def lasted(self, life_s: float) -> "Lifetimes":
        """These, and one that was left before it ended."""
        latest_s = self._latest_with(life_s + MEAN_UP_S)
        return Lifetimes(self.ends, self.exposure + _exposure(life_s), latest_s)

    def with_others(self, others: "Lifetimes") -> "Lifetimes":
        """These and others, which count as later."""
        return Lifetimes(
            self.ends + others.ends,
            self.exposure + others.exposure,
            (*self.latest_s, *others.latest_s)[-LIVES_KEPT:],
        )

    def _latest_with(self, life_s: float) -> tuple[float, ...]:
        return (*self.latest_s, life_s)[-LIVES_KEPT:]

    def shape(self, prior: float, going_on_s: float | None = None) -> float:
        """The shape of such lives: the higher it is, the earlier they end.

        Args:
            prior: The shape before anything was seen.
            going_on_s: The age of one that has not ended; None: there is none.
        """
        open_exposure = 0.0 if going_on_s is None else _exposure(going_on_s)
        return (SHAPE_WEIGHT + self.ends) / (SHAPE_WEIGHT / prior + self.exposure + open_exposure)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotRecord:
    """The times at which spot came and went, as far as this workload saw them."""

    is_up: bool
    age_s: float = 0.0
    """Since when it has been so, as far as was seen."""
    observed_s: float = 0.0
    up: Lifetimes = Lifetimes()
    away: Lifetimes = Lifetimes()

    def looked(self, after_s: float, *, is_up: bool) -> "SpotRecord":
        """The record after another look.

        Args:
            after_s: Since the look before; a change is taken to be new.
        """
        age_s, observed_s = self.age_s + after_s, self.observed_s + after_s
        up, away = self.up, self.away
        if is_up != self.is_up:
            up = up.ended(age_s) if self.is_up else up
            away = away if self.is_up else away.ended(age_s)
            age_s = 0.0
        return SpotRecord(is_up=is_up, age_s=age_s, observed_s=observed_s, up=up, away=away)

    @property
    def up_shape(self) -> float:
        """The shape of the law for times up."""
        return self.up.shape(UP_SHAPE, self.age_s if self.is_up else None)

    @property
    def away_shape(self) -> float:
        """The shape of the law for times away."""
        return self.away.shape(AWAY_SHAPE, None if self.is_up else self.age_s)

    @property
    def cycle_s(self) -> float:
        """How long is it from one time up to the next, in the mean?"""
        cycles = (self.up.ends + self.away.ends) / 2
        return (CYCLE_WEIGHT * CYCLE_S + self.observed_s) / (CYCLE_WEIGHT + cycles)


def hazard_per_s(shape: float, age_s: float) -> float:
    """How likely is the end in the next second, at this age?"""
    return shape / (age_s + LIFE_SCALE_S)


def age_at_hazard_s(shape: float, hazard: float) -> float:
    """The age at which the hazard has fallen to this value per second; 0: it starts lower."""
    return max(0.0, shape / hazard - LIFE_SCALE_S)


def longest_wait_s(shape: float, mean_wait_s: float) -> float:
    """How long may one wait for the end of each life, for this mean wait?

    The inverse of `E[min(life, w)] = scale / (shape - 1) * (1 - (1 + w / scale)^(1 - shape))`.

    Returns:
        Seconds; infinite: one may wait for the end of every life.
    """
    if mean_wait_s <= 0:
        return 0.0
    relative = mean_wait_s / LIFE_SCALE_S
    power = 1 - shape
    if abs(power) < 1e-6:
        exponent = relative
    elif 1 + power * relative <= 0:
        return math.inf
    else:
        exponent = math.log1p(power * relative) / power
    return LIFE_SCALE_S * math.expm1(exponent) if exponent < 50 else math.inf


def _exposure(life_s: float) -> float:
    return math.log1p(life_s / LIFE_SCALE_S)
