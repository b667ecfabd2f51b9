"""The saves of runs, as the ledger shows them, and the time of runs that are interrupted."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean

import numpy as np

from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.units import SECONDS_PER_HOUR
from gpu_core.decisions.optimization.proposals.interruption_model import Numbers, observed_breaks
from gpu_core.decisions.optimization.proposals.run_facts import (
    RunFact,
    stalled_before_newest_save_s,
)

LEAST_RUNS = 10
"""With measured saves: fewer say little about the next ones."""
LEAST_BREAKS = 5
"""Attempts that ended before their run: from fewer the 80% interval of their rate spans more than
a factor of three (Jeffreys)."""

_LONGEST_NOTICE_S = 120.0
"""Before an interruption: AWS gives two minutes (Amazon EC2 User Guide, "Spot Instance interruption
notices"), Google Cloud and Azure 30 s, as does a preemption by default."""

_MOST_ROUNDS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Saves:
    """The saves of the runs of a deployment."""

    runs: int
    """With measured saves."""
    interval_s: float
    """Work from the end of a save to the beginning of the next."""
    stall_s: float
    """How long a save stops the work."""
    persist_s: float
    """From the beginning of a save until it is durable; not below the stall."""
    unannounced_ratio: float
    """The part of the interruptions that lose what is not saved: 0 where each run saves in time."""

    def every(self, interval_s: float) -> "Saves":
        """The same saves at another interval."""
        return replace(self, interval_s=interval_s)

    @property
    def cycle_s(self) -> float:
        """From the end of a save to the end of the next."""
        return self.interval_s + self.stall_s

    @property
    def stalled_ratio(self) -> float:
        """The part of its time in which a run stands still for saves."""
        return self.stall_s / self.cycle_s

    def unannounced_loss_s(self, per_hour: float) -> float:
        """The mean loss of an interruption without notice, at this rate.

        From the beginning of the newest durable save: the mean of an exponential life within a
        cycle, and what a save needs to be durable.
        """
        cycles = self.cycle_s * per_hour / SECONDS_PER_HOUR
        # Half a cycle where interruptions are rare; the formula has no digits left there.
        part = 1 / cycles - 1 / math.expm1(cycles) if cycles > 1e-6 else 0.5
        return self.cycle_s * part + self.persist_s


def observed_saves(facts: Sequence[RunFact]) -> Saves | None:
    """The saves of these runs; None: they were measured of too few, or too few were interrupted.

    The interval is the time from the first step to the beginning of the newest save, without the
    stalls of the saves before it, by the number of saves; see `_interval_s` for which attempts.
    """
    measured = [fact for fact in facts if any(_is_measured(a) for a in fact.attempts)]
    attempts = [a for fact in measured for a in fact.attempts if _is_measured(a)]
    everything = [attempt for fact in facts for attempt in fact.attempts]
    broken = [a for a in everything if a.end_reason is not None and a.end_reason.resumes]
    losses = [a.expected_loss_s for a in attempts if a.expected_loss_s is not None]
    if len(measured) < LEAST_RUNS or len(broken) < LEAST_BREAKS or not losses:
        return None
    saves = sum(attempt.saves or 0 for attempt in attempts)
    stall_s = sum((a.save_stall_s or 0.0) * (a.saves or 0) for a in attempts) / saves
    interval_s = _interval_s(measured)
    if interval_s <= 0:
        return None
    found = Saves(
        runs=len(measured),
        interval_s=interval_s,
        stall_s=stall_s,
        # The flow states half an interval and what a save needs to be durable.
        persist_s=max(stall_s, mean(losses) - interval_s / 2),
        unannounced_ratio=1.0,
    )
    unannounced_s = found.unannounced_loss_s(observed_breaks(everything).per_hour)
    lost_s = [lost for attempt in broken if (lost := _lost_s(attempt)) is not None]
    ratio = min(1.0, mean(lost_s) / unannounced_s) if lost_s else 0.0
    return replace(found, unannounced_ratio=ratio)


def _interval_s(measured: Sequence[RunFact]) -> float:
    """The work before each save, without saves that may have answered a notice of the end.

    Such a save comes before its time, so that it shortens the mean: an attempt counts if it worked
    on for longer than a notice lasts. Where few did, intervals are short, and a save before its
    time is one of many.
    """
    attempts = [a for fact in measured for a in fact.attempts if _is_measured(a)]
    timely = [a for a in attempts if (_lost_s(a) or 0.0) > _LONGEST_NOTICE_S]
    is_enough = len({attempt.flow_run_id for attempt in timely}) >= LEAST_RUNS
    counted = timely if is_enough else attempts
    worked_s = sum(_saving_for_s(a) - stalled_before_newest_save_s(a) for a in counted)
    return worked_s / sum(a.saves or 0 for a in counted)


def _is_measured(attempt: Attempt) -> bool:
    """Has it saved, and is it known for how long?"""
    return bool(attempt.saves) and attempt.save_stall_s is not None and _saving_for_s(attempt) > 0


def _saving_for_s(attempt: Attempt) -> float:
    if attempt.first_step_at is None or attempt.checkpointed_at is None:
        return 0.0
    return (attempt.checkpointed_at - attempt.first_step_at).total_seconds()


def _lost_s(attempt: Attempt) -> float | None:
    """The work of an attempt since its newest checkpoint; None: it had not begun."""
    since = attempt.checkpointed_at or attempt.first_step_at
    if since is None or attempt.released_at is None:
        return None
    return max(0.0, (attempt.released_at - since).total_seconds())


def simulated_with_saves_s(
    useful_s: Numbers,
    rate_per_hour: Numbers,
    startup_s: Numbers,
    saves: Saves,
    rng: np.random.Generator,
) -> Numbers:
    """How long do these runs hold their GPUs until their work is done?

    Interruptions are a Poisson process. Each attempt starts up again, and saves after each interval
    of its own; those with a notice in time save right before their end.

    Args:
        useful_s: Work of each run, in seconds without interruptions and saves.
        rate_per_hour: Interruptions per hour, for each run.
        startup_s: From each attempt's admission to its first step.
        saves: How they save.
        rng: Seeded.
    """
    left_s = np.array(useful_s, dtype=np.float64)
    held = np.zeros_like(left_s)
    open_ = np.flatnonzero(np.ones_like(left_s))
    late_s = saves.persist_s - saves.stall_s
    for _ in range(_MOST_ROUNDS):
        if not open_.size:
            break
        rate_per_s = rate_per_hour[open_] / SECONDS_PER_HOUR
        # A rate of zero, or next to it: it is never interrupted.
        with np.errstate(divide="ignore", over="ignore"):
            life_s = rng.exponential(size=open_.size) / rate_per_s
        # Not at the end of the work.
        count = np.maximum(0.0, np.ceil(left_s[open_] / saves.interval_s) - 1)
        needed_s = startup_s[open_] + left_s[open_] + count * saves.stall_s
        is_done = life_s >= needed_s
        held[open_] += np.where(is_done, needed_s, life_s)
        done_s = np.where(is_done, 0.0, np.maximum(0.0, life_s - startup_s[open_]))
        safe_s = np.floor(np.maximum(0.0, done_s - late_s) / saves.cycle_s) * saves.interval_s
        is_announced = rng.random(size=open_.size) >= saves.unannounced_ratio
        worked_s = np.floor(done_s / saves.cycle_s) * saves.interval_s + np.minimum(
            saves.interval_s, done_s % saves.cycle_s
        )
        left_s[open_] -= np.where(is_announced, worked_s, safe_s)
        open_ = open_[~is_done]
    return held
