"""Runs that save, and are interrupted, by another model than the one that predicts them.

Lives of spot are Weibull-distributed, so that young capacity is lost more often. A save waits for
the end of a step, takes a different time each time, and is durable after its upload. Some
interruptions come with a notice, on which the run saves.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count

import numpy as np

from benchmarks.saving_histories import FIRST_DAY, STARTUP_S, History, Work, attempt_of
from gpu_core.decisions.model.attempts import Attempt, EndReason, RunRecord

SHAPE = 0.8
"""Of the lives: under 1, as public traces of spot have it; 1 would be the predictor's model."""
STEP_S = 20.0
NOTICED = 0.3
"""Of the interruptions."""
UPLOAD = 3.0
"""The time until a save is durable, in times of its stall."""
_RUNS = 300
_INTERVALS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)
"""The intervals that are tried for the best one, by Young's formula."""


class SavedHistory(History):
    """Makes records of runs that save."""

    def attempts(
        self, work: Work, run: RunRecord, admitted_at: datetime, left_s: float
    ) -> Iterator[Attempt]:
        """See `History`; the work saves, and is interrupted."""
        rng = self._rng
        assert work.checkpoint_s is not None
        mean_s = 3600 / work.per_hour
        restored_from = None
        for number in count(1):
            life_s = mean_s / math.gamma(1 + 1 / SHAPE) * float(rng.weibull(SHAPE))
            startup_s = STARTUP_S * float(rng.uniform(0.5, 1.5))
            most = math.ceil(left_s / work.checkpoint_s)
            worked_s = np.cumsum(work.checkpoint_s + rng.uniform(0, STEP_S, most))
            worked_s = worked_s[worked_s < left_s]
            stalls_s = rng.gamma(4, work.stall_s / 4, worked_s.size)
            begins_s = startup_s + worked_s + np.cumsum(stalls_s) - stalls_s
            needed_s = startup_s + left_s + float(stalls_s.sum())
            is_done = life_s >= needed_s
            held_s = needed_s if is_done else life_s
            saves = int((begins_s + UPLOAD * stalls_s <= held_s).sum())
            saved_s = float(worked_s[saves - 1]) if saves else 0.0
            saved_at_s = float(begins_s[saves - 1]) if saves else 0.0
            if not is_done and life_s > startup_s and rng.random() < NOTICED:
                stalled_s = float(stalls_s[begins_s < life_s].sum())
                saved_s = max(saved_s, min(left_s, life_s - startup_s - stalled_s))
                saves, saved_at_s = saves + 1, life_s
            checkpoint = f"{run.flow_run_id}/{number}" if saves else None
            yield attempt_of(
                *(work, run, number, admitted_at),
                first_step_at=admitted_at + timedelta(seconds=min(held_s, startup_s)),
                released_at=admitted_at + timedelta(seconds=held_s),
                end_reason=EndReason.COMPLETED if is_done else EndReason.INTERRUPTED,
                restored_from=restored_from,
                checkpoint=checkpoint,
                checkpointed_at=admitted_at + timedelta(seconds=saved_at_s) if saves else None,
                expected_loss_s=work.checkpoint_s / 2 + UPLOAD * work.stall_s,
                saves=saves or None,
                save_stall_s=float(np.median(stalls_s[:saves])) if stalls_s[:saves].size else None,
            )
            if is_done:
                return
            left_s -= saved_s
            restored_from = checkpoint or restored_from
            admitted_at = admitted_at + timedelta(seconds=held_s + 300)


def young_s(work: Work) -> float:
    """Which interval is about the best? Young, Communications of the ACM 17, 1974."""
    return math.sqrt(2 * work.stall_s * 3600 / work.per_hour)


def best_saving(work: Work) -> float:
    """What part of the cost does the best interval save in many runs? Not below zero."""
    cost = held_s(work)
    near = young_s(work)
    others = (held_s(replace(work, checkpoint_s=near * times)) for times in _INTERVALS)
    return max(0.0, 1 - min(others) / cost)


def held_s(work: Work) -> float:
    """How long do many runs hold their GPUs in the mean?"""
    history = SavedHistory(99)
    found = 0.0
    for _ in range(_RUNS):
        _, attempts = history.run(work, FIRST_DAY)
        ends = [(a.admitted_at, a.released_at) for a in attempts]
        found += sum((end - start).total_seconds() for start, end in ends if end is not None)
    return found / _RUNS
