"""The interval between saves, from the cost of a save and the lifetime of the capacity.

`gpu_core/runtime/DESIGN.md` has each rule with a worked example.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from gpu_core.decisions.model.capacity_life import CapacityLife
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import format_duration

# Saving more often loses next to nothing less, and every save is several requests to the store.
_SHORTEST_S = 30.0
# An upload may take longer than those before it: the network is shared.
_NOTICE_MARGIN = 1.2
# How long before the deadline the last save has to be safe: clocks differ, steps take time.
_LATEST_S = 5.0
_REMEMBERED = 5
# The first pause after a save that failed; it doubles up to the interval.
_FIRST_RETRY_S = 15.0
# Each round sets the mean life to that of the interval found; it settles within a second by then.
_ROUNDS = 6


@dataclass(frozen=True, slots=True)
class SaveTime:
    """The time that one save took."""

    stall_s: float
    """How long the training stood still."""
    persist_s: float
    """From the beginning of the save until it was durable; not below the stall."""


@dataclass(frozen=True, slots=True)
class SaveTimes:
    """The times that the latest saves took; empty before the first measurement."""

    latest: tuple[SaveTime, ...] = ()

    def after(self, save: SaveTime) -> "SaveTimes":
        """With one more save; only the latest five are remembered."""
        return SaveTimes((*self.latest, save)[-_REMEMBERED:])

    @property
    def stall_s(self) -> float | None:
        """The usual stall, by median: the first save also pays for its memory."""
        return median(save.stall_s for save in self.latest) if self.latest else None

    @property
    def persist_s(self) -> float | None:
        """The usual time until a save is durable."""
        return median(save.persist_s for save in self.latest) if self.latest else None

    @property
    def longest_persist_s(self) -> float | None:
        """The longest of them, for what must not fail."""
        return max((save.persist_s for save in self.latest), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalSettings:
    """The bounds of the interval.

    Raises:
        InvalidInput: A value is out of range.
    """

    default_s: float = 600.0
    """The interval where nothing was measured, or no hazard is known."""
    longest_s: float = 3600.0
    """No more than this much work is ever at stake, notices or not, unless a save takes longer."""
    max_overhead: float = 0.2
    """The largest share of time in stalls. It keeps a wrong life from costing more than that.

    At the optimum the share is about sqrt(stall / 2 lives): a fifth where a save stalls for a
    twelfth of a life, which is beyond what any sensible store and capacity have.
    """
    unannounced_share: float = 1.0
    """The share of interruptions that come without a notice in time for a save.

    1: notices are not relied on. AWS gives them with best effort only.
    """

    def __post_init__(self) -> None:
        _require("default_s", self.default_s, 0 < self.default_s < math.inf, "over 0")
        _require("longest_s", self.longest_s, 0 < self.longest_s < math.inf, "over 0")
        _require("max_overhead", self.max_overhead, 0 < self.max_overhead < 1, "between 0 and 1")
        share = self.unannounced_share
        _require("unannounced_share", share, 0 < share <= 1, "over 0, up to 1")


class IntervalRule(StrEnum):
    """The rule that has set the interval."""

    DEFAULT = "Default"
    """Nothing was measured, or no hazard is known."""
    OPTIMUM = "Optimum"
    """Stalls and expected loss together are least."""
    SHORTEST = "Shortest"
    PERSIST_TIME = "PersistTime"
    """The save before has to be durable first."""
    OVERHEAD = "Overhead"
    """Stalls may take no larger share."""
    LONGEST = "Longest"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveInterval:
    """The time to work until the next save, and the numbers that explain it."""

    interval_s: float
    """From the end of one stall to the beginning of the next."""
    rule: IntervalRule
    stall_s: float | None
    persist_s: float | None
    mean_life_s: float | None
    """Of the capacity at this age, over the interval; None: no hazard is known."""
    optimum_s: float | None
    """The result of Daly's formula, before it was bounded."""
    overhead: float | None
    """Share of time in stalls."""
    expected_loss_s: float | None
    """Work lost by an interruption without notice, on average."""

    def __str__(self) -> str:
        if self.stall_s is None or self.persist_s is None:
            return f"every {format_duration(self.interval_s)}: no save was measured yet"
        life = "no known hazard"
        if self.mean_life_s is not None:
            life = f"one interruption in {format_duration(self.mean_life_s)}"
        return (
            f"every {format_duration(self.interval_s)} ({self.rule}): a save stalls the run for "
            f"{format_duration(self.stall_s)} and is safe after {format_duration(self.persist_s)}; "
            f"{life}; {100 * (self.overhead or 0):.1f}% of the time in stalls, an unannounced "
            f"interruption loses {format_duration(self.expected_loss_s)} on average"
        )


def daly_interval_s(stall_s: float, mean_life_s: float) -> float:
    """How long to work between two saves, so that stalls and lost work together are least?

    The higher-order estimate of J. T. Daly, "A higher order estimate of the optimum checkpoint
    interval for restart dumps", Future Generation Computer Systems 22 (2006), equation 37.

    Args:
        stall_s: What a save costs, 0 or more.
        mean_life_s: Mean time between interruptions, over 0.
    """
    if stall_s >= 2 * mean_life_s:
        return mean_life_s
    ratio = stall_s / (2 * mean_life_s)
    root_s = math.sqrt(2 * stall_s * mean_life_s)
    return root_s * (1 + math.sqrt(ratio) / 3 + ratio / 9) - stall_s


def save_interval(
    times: SaveTimes,
    life: CapacityLife | None = None,
    age_s: float = 0.0,
    settings: IntervalSettings | None = None,
) -> SaveInterval:
    """How long should a run work until it saves again?

    Args:
        life: How long its capacity lives; None: no hazard is known (on-demand).
        age_s: How long the capacity has been up.
        settings: The bounds; the defaults if None.
    """
    settings = settings or IntervalSettings()
    stall_s, persist_s = times.stall_s, times.persist_s
    if stall_s is None or persist_s is None:
        return _unmeasured(settings)
    mean_life_s = optimum_s = None
    wanted, rule = settings.default_s, IntervalRule.DEFAULT
    if life is not None:
        mean_life_s, optimum_s = _optimum(stall_s, life, age_s, settings.unannounced_share)
        wanted, rule = optimum_s, IntervalRule.OPTIMUM
    interval_s, rule = _bounded(wanted, rule, stall_s, persist_s, settings)
    return SaveInterval(
        interval_s=interval_s,
        rule=rule,
        stall_s=stall_s,
        persist_s=persist_s,
        mean_life_s=mean_life_s,
        optimum_s=optimum_s,
        overhead=stall_s / (stall_s + interval_s),
        expected_loss_s=unannounced_loss_s(interval_s, persist_s),
    )


def expected_loss_s(
    interval: SaveInterval, grace_s: float | None = None, unannounced_share: float = 1.0
) -> float | None:
    """How much work does one interruption lose on average, or wait away? None: not measured.

    Without a notice half an interval is lost, and what the last save needed to become durable.
    With a notice that leaves time for a save, the run only waits for that save.

    Args:
        grace_s: Seconds between a notice and the end; None: there are no notices.
        unannounced_share: The share of interruptions without a notice in time, 0 to 1.
    """
    unannounced_s, persist_s = interval.expected_loss_s, interval.persist_s
    if unannounced_s is None or persist_s is None:
        return None
    if grace_s is None or persist_s * _NOTICE_MARGIN > grace_s:
        return unannounced_s
    return unannounced_share * unannounced_s + (1 - unannounced_share) * persist_s


def retry_pause_s(failures: int, interval_s: float) -> float:
    """How long to work after this many failed saves in a row before the next try?

    15 s, doubled with each failure, and never longer than the interval.

    >>> [retry_pause_s(failures, 100.0) for failures in (1, 2, 3, 4)]
    [15.0, 30.0, 60.0, 100.0]
    """
    return min(interval_s, _FIRST_RETRY_S * 2.0 ** min(failures - 1, 20))


class NoticeAction(StrEnum):
    """The action that a run takes on a notice."""

    SAVE = "Save"
    """Save now, after what is under way."""
    FINISH = "Finish"
    """Only the upload under way still fits."""
    NOTHING = "Nothing"
    """Neither still fits: only the progress that is safe already remains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeAnswer:
    """The action to take on a notice, and the numbers that explain it."""

    action: NoticeAction
    grace_s: float
    upload_left_s: float | None
    """Until the upload under way is expected to end; None: there is none."""
    save_s: float | None
    """The longest time that a save takes, with a margin; None: no save was measured."""

    def __str__(self) -> str:
        under_way = ""
        if self.upload_left_s is not None:
            under_way = f"the upload under way needs {format_duration(self.upload_left_s)}, "
        return (
            f"{self.action}: {under_way}a save needs {format_duration(self.save_s)}, "
            f"and {format_duration(self.grace_s)} are left"
        )


def answer_notice(
    grace_s: float, times: SaveTimes, uploading_for_s: float | None = None
) -> NoticeAnswer:
    """The action of a run after a notice: save, finish the upload under way, or nothing.

    It saves if that fits into what is left, after the upload under way. A save of which nothing
    is known is tried: nothing that is done instead would be kept. So is one after a deadline that
    has passed, because then the clocks differ or the end is late.

    Args:
        grace_s: Seconds until the run is killed.
        uploading_for_s: How long ago the save under way started; None: none is.
    """
    longest_s = times.longest_persist_s
    if longest_s is None or grace_s <= 0:
        return NoticeAnswer(
            action=NoticeAction.SAVE, grace_s=grace_s, upload_left_s=None, save_s=None
        )
    save_s = longest_s * _NOTICE_MARGIN
    left_s = None if uploading_for_s is None else max(0.0, save_s - uploading_for_s)
    action = NoticeAction.NOTHING
    if (left_s or 0.0) + save_s <= grace_s:
        action = NoticeAction.SAVE
    elif left_s is not None and left_s <= grace_s:
        action = NoticeAction.FINISH
    return NoticeAnswer(action=action, grace_s=grace_s, upload_left_s=left_s, save_s=save_s)


def last_save_in_s(grace_s: float, times: SaveTimes) -> float | None:
    """How long may a run continue after its answer to a notice, and still save what it does?

    Not every notice is followed by SIGTERM as soon as the run has saved: a provider takes its
    capacity at the deadline. What is done until then is worth one more save, as late as fits.
    None: nothing more fits, or no save was measured.

    Args:
        grace_s: Seconds until the run is killed.
    """
    longest_s = times.longest_persist_s
    if longest_s is None:
        return None
    left_s = grace_s - longest_s * _NOTICE_MARGIN - _LATEST_S
    return left_s if left_s >= 0 else None


def _unmeasured(settings: IntervalSettings) -> SaveInterval:
    return SaveInterval(
        interval_s=settings.default_s,
        rule=IntervalRule.DEFAULT,
        stall_s=None,
        persist_s=None,
        mean_life_s=None,
        optimum_s=None,
        overhead=None,
        expected_loss_s=None,
    )


def _optimum(
    stall_s: float, life: CapacityLife, age_s: float, unannounced_share: float
) -> tuple[float, float]:
    """The mean life over the interval, and the interval; each depends on the other."""
    mean_life_s = life.mean_life_s(age_s) / unannounced_share
    interval_s = daly_interval_s(stall_s, mean_life_s)
    for _ in range(_ROUNDS):
        mean_life_s = life.mean_life_s(age_s, interval_s + stall_s) / unannounced_share
        interval_s = daly_interval_s(stall_s, mean_life_s)
    return mean_life_s, interval_s


def _bounded(
    wanted_s: float,
    rule: IntervalRule,
    stall_s: float,
    persist_s: float,
    settings: IntervalSettings,
) -> tuple[float, IntervalRule]:
    """The lower bounds come last: they are what the store and the training can bear."""
    if wanted_s > settings.longest_s:
        wanted_s, rule = settings.longest_s, IntervalRule.LONGEST
    overhead_s = stall_s * (1 - settings.max_overhead) / settings.max_overhead
    lower_bounds = (
        (min(_SHORTEST_S, settings.default_s), IntervalRule.SHORTEST),
        (persist_s - stall_s, IntervalRule.PERSIST_TIME),
        (overhead_s, IntervalRule.OVERHEAD),
    )
    lowest_s, lowest_rule = max(lower_bounds, key=lambda bound: bound[0])
    return (lowest_s, lowest_rule) if lowest_s > wanted_s else (wanted_s, rule)


def unannounced_loss_s(interval_s: float, persist_s: float) -> float:
    """How much work does an interruption without notice lose on average?

    Args:
        interval_s: From the end of one stall to the beginning of the next save.
        persist_s: From the beginning of a save until it is durable.
    """
    return interval_s / 2 + persist_s


def _require(field: str, value: float, holds: bool, allowed: str) -> None:
    if not holds:
        raise InvalidInput(field, "is out of range", got=value, allowed=allowed)
