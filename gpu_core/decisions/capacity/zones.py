"""Which zone is tried next for spot? The one that has lately given the most useful time.

Useful is what a stay lasts beyond its changeover: a zone that takes its capacity back sooner has
given nothing. That score in a window, with a bonus for what was tried seldom (UCB1: Auer,
Cesa-Bianchi and Fischer, Machine Learning 47, 2002), was the best of six rules for zones in
SkyPilot's comparison (pull request 2234, 2023), where trying the same zone again failed every job.
So the zone that has just interrupted is left, and one that fails again and again is left alone for
longer each time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import fmean

from gpu_core.decisions.capacity.policy import BackoffPolicy, ZonePolicy
from gpu_core.decisions.units import format_duration

EXPLORATION = 0.1
"""The weight of the bonus, from the same comparison; the bonus is in mean useful stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneOffer:
    """Spot in one zone."""

    zone: str
    spot_micro_usd_per_hour: int | None = None
    """None: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """A time on spot in a zone that is over. A request that got nothing is one without length."""

    zone: str
    began_at: datetime
    ended_at: datetime

    def useful_s(self, changeover_s: float) -> float:
        """For how long did it do work?"""
        return max(0.0, (self.ended_at - self.began_at).total_seconds() - changeover_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneScore:
    """What is known of one zone."""

    zone: str
    useful_s: float
    """What a stay is thought to give, with the bonus for being tried seldom."""
    saving: float | None
    """The part of the on-demand price that spot saves there; None: a price is unknown."""
    stays: int
    """In the window."""
    blocked_until: datetime | None
    """None: it may be tried now."""

    @property
    def worth_s(self) -> float:
        """Useful time by what each second of it saves; by time alone where prices are unknown."""
        return self.useful_s * (1.0 if self.saving is None else self.saving)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneChoice:
    """Where to try, or when to try again."""

    zone: str | None
    """None: no zone may be tried now."""
    retry_at: datetime | None
    """When the first zone may be tried again, if none may be now; None: never."""
    scores: tuple[ZoneScore, ...]
    """All zones whose spot is cheaper than on-demand or of unknown price, best first."""

    @property
    def reason(self) -> str:
        """The choice and its numbers as one sentence."""
        if not self.scores:
            return "no zone has spot that is cheaper than on-demand"
        if self.zone is None:
            return f"every zone has failed lately; again at {self.retry_at:%H:%M:%S}"
        best = next(score for score in self.scores if score.zone == self.zone)
        saving = "prices unknown" if best.saving is None else f"saves {best.saving:.0%}"
        return (
            f"{best.zone}: {format_duration(best.useful_s)} of useful time a stay, "
            f"{saving}, {best.stays} stays in the window"
        )


def choose_zone(
    offers: Sequence[ZoneOffer],
    stays: Sequence[Stay],
    policy: ZonePolicy,
    *,
    changeover_s: float,
    on_demand_micro_usd_per_hour: int | None,
    now: datetime,
) -> ZoneChoice:
    """In which zone should spot be tried now?

    Args:
        offers: The zones, in order of preference where all else is equal.
        stays: What became of earlier tries, in any order.
        policy: Window and back-off.
        changeover_s: What a start loses.
        on_demand_micro_usd_per_hour: What spot is compared with; None: unknown.
        now: Aware.
    """
    since = now - timedelta(seconds=policy.window_s)
    recent = sorted((s for s in stays if s.ended_at >= since), key=lambda s: s.ended_at)
    savings = [_saving(offer, on_demand_micro_usd_per_hour) for offer in offers]
    are_priced = None not in savings
    scores = [
        _score(offer.zone, saving if are_priced else None, recent, policy, changeover_s, now)
        for offer, saving in zip(offers, savings, strict=True)
        if saving is None or saving > 0
    ]
    scores.sort(key=lambda score: -score.worth_s)
    free = [score.zone for score in scores if score.blocked_until is None]
    blocked = [score.blocked_until for score in scores if score.blocked_until is not None]
    return ZoneChoice(
        zone=free[0] if free else None,
        retry_at=None if free else min(blocked, default=None),
        scores=tuple(scores),
    )


def _saving(offer: ZoneOffer, on_demand: int | None) -> float | None:
    if offer.spot_micro_usd_per_hour is None or not on_demand:
        return None
    return 1 - offer.spot_micro_usd_per_hour / on_demand


def _score(
    zone: str,
    saving: float | None,
    recent: Sequence[Stay],
    policy: ZonePolicy,
    changeover_s: float,
    now: datetime,
) -> ZoneScore:
    own = [stay for stay in recent if stay.zone == zone]
    # One stay like the mean of all zones' keeps a zone that was tried once from being judged by it.
    everywhere_s = fmean(s.useful_s(changeover_s) for s in recent) if recent else changeover_s
    mean_s = (sum(s.useful_s(changeover_s) for s in own) + everywhere_s) / (len(own) + 1)
    bonus = EXPLORATION * math.sqrt(2 * math.log(len(recent) + 1) / (len(own) + 1))
    return ZoneScore(
        zone=zone,
        useful_s=mean_s + bonus * max(everywhere_s, changeover_s),
        saving=saving,
        stays=len(own),
        blocked_until=blocked_until(own, policy, changeover_s, now),
    )


def blocked_until(
    own: Sequence[Stay], policy: BackoffPolicy, changeover_s: float, now: datetime
) -> datetime | None:
    """Until when is a place left alone? Twice as long for each useless stay before its last one.

    Args:
        own: The stays there that were cut off, in the order of their ends.
        policy: The first and the longest such time.
        changeover_s: What a start loses: a shorter stay was useless.
        now: Aware.

    Returns:
        None: it may be tried now.
    """
    if not own:
        return None
    useless = 0
    for stay in reversed(own[:-1]):
        if stay.useful_s(changeover_s) > 0:
            break
        useless += 1
    # 2^32 first back-offs are longer than any longest one.
    backoff_s = min(policy.longest_backoff_s, policy.first_backoff_s * 2 ** min(useless, 32))
    until = own[-1].ended_at + timedelta(seconds=backoff_s)
    return until if until > now else None
