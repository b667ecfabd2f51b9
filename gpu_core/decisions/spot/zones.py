"""The zone to try next for spot: the one that has recently given the most useful time.

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

from gpu_core.decisions.model.units import format_duration
from gpu_core.decisions.policy.capacity import BackoffPolicy, ZonePolicy

EXPLORATION = 0.1
"""The weight of the bonus, from the same comparison; the bonus is in mean useful stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """A time on spot in a zone. A request that got nothing is one without length."""

    zone: str
    began_at: datetime
    ended_at: datetime
    """If it continues: until when it was seen."""
    was_interrupted: bool = True
    """False: it was released, or continues. Its time counts, but it was no failure."""

    def useful_s(self, changeover_s: float) -> float:
        """For how long did it do work?"""
        return max(0.0, (self.ended_at - self.began_at).total_seconds() - changeover_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneScore:
    """The score of one zone."""

    zone: str
    useful_s: float
    """The expected yield of a stay, with the bonus for being tried seldom."""
    stays: int
    """In the window."""
    blocked_until: datetime | None
    """The moment from which it may be tried again; None: it may be tried now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneChoice:
    """The zone to try, or the moment to try again."""

    zone: str | None
    """The zone to try; None: no zone may be tried now."""
    retry_at: datetime | None
    """The moment from which the first zone may be tried again, if none may be now; None: there is
    no zone."""
    scores: tuple[ZoneScore, ...]
    """All zones, best first."""

    @property
    def reason(self) -> str:
        """The choice and its numbers as one sentence."""
        if not self.scores:
            return "there is no zone"
        if self.zone is None:
            return f"all zones have failed recently; retrying at {self.retry_at:%H:%M:%S}"
        first, *others = sorted(self.scores, key=lambda score: score.zone != self.zone)
        of_others = "".join(f", {other.zone} {format_duration(other.useful_s)}" for other in others)
        useful = format_duration(first.useful_s)
        return f"{first.zone}: expected to provide {useful} of useful time{of_others}"


def choose_zone(
    zones: Sequence[str],
    stays: Sequence[Stay],
    policy: ZonePolicy,
    *,
    changeover_s: float,
    now: datetime,
) -> ZoneChoice:
    """The zone in which spot should be tried now.

    Args:
        zones: In order of preference among equals.
        stays: What became of earlier tries, in any order.
    """
    since = now - timedelta(seconds=policy.window_s)
    recent = sorted(
        (stay for stay in stays if stay.ended_at >= since),
        key=lambda stay: (stay.ended_at, stay.useful_s(changeover_s)),
    )
    scores = [_score(zone, recent, policy, changeover_s, now) for zone in zones]
    scores.sort(key=lambda score: -score.useful_s)
    free = [score.zone for score in scores if score.blocked_until is None]
    blocked = [score.blocked_until for score in scores if score.blocked_until is not None]
    return ZoneChoice(
        zone=free[0] if free else None,
        retry_at=None if free else min(blocked, default=None),
        scores=tuple(scores),
    )


def _score(
    zone: str,
    recent: Sequence[Stay],
    policy: ZonePolicy,
    changeover_s: float,
    now: datetime,
) -> ZoneScore:
    own = [stay for stay in recent if stay.zone == zone]
    failures = [stay for stay in own if stay.was_interrupted]
    all_failures = sum(stay.was_interrupted for stay in recent)
    # One stay like the mean of all zones' keeps a zone that was tried once from being judged by it.
    everywhere_s = (
        _useful_s(recent, changeover_s) / max(1, all_failures) if recent else changeover_s
    )
    mean_s = (_useful_s(own, changeover_s) + everywhere_s) / (len(failures) + 1)
    bonus = EXPLORATION * math.sqrt(2 * math.log(all_failures + 1) / (len(failures) + 1))
    return ZoneScore(
        zone=zone,
        useful_s=mean_s + bonus * max(everywhere_s, changeover_s),
        stays=len(own),
        blocked_until=blocked_until(failures, policy, changeover_s, now),
    )


def _useful_s(stays: Sequence[Stay], changeover_s: float) -> float:
    # Exact, so that equal zones stay equal in any order of their stays.
    return math.fsum(stay.useful_s(changeover_s) for stay in stays)


def blocked_until(
    own: Sequence[Stay], policy: BackoffPolicy, changeover_s: float, now: datetime
) -> datetime | None:
    """The moment until which a place is avoided, after twice the time for each useless stay.

    Args:
        own: The stays there that were cut off, in the order of their ends.
        policy: The first and the longest such time.
        changeover_s: What a start loses: a shorter stay was useless.

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
    until = own[-1].ended_at + timedelta(seconds=policy.backoff_s(useless + 1))
    return until if until > now else None
