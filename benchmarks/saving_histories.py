"""Generated histories of a ledger, in which it is known what a change would save.

A month and the one before it, then the days after the change. Weekends have 0.4 of the runs of
weekdays. Work varies by run, spot is interrupted by a Poisson process, and waits vary by half their
mean.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import count
from typing import Any

import numpy as np

from gpu_core.decisions.model.attempts import Attempt, EndReason, RunRecord
from gpu_core.decisions.optimization.proposals.run_facts import Record

FIRST_DAY = date(2026, 9, 7)
LEARNING_DAYS = 56
WEEKEND = 0.4
WAIT_S = 180.0
STARTUP_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Work:
    """What one deployment does.

    Attributes:
        hours: Mean work of a run on its GPUs.
        spread: The coefficient of variation of that.
        price_micro_usd: Of a GPU for an hour.
        per_hour: Interruptions per hour of an attempt.
        checkpoint_s: Work between two checkpoints; None: none.
        stall_s: How long a save stops the work.
    """

    deployment: str
    runs_per_weekday: float
    hours: float
    spread: float
    gpu_type: str
    gpu_count: int
    capacity_type: str
    price_micro_usd: int
    per_hour: float = 0.0
    checkpoint_s: float | None = None
    stall_s: float = 0.0

    def faster(self, factor: float) -> "Work":
        """The same work in another time."""
        return replace(self, hours=self.hours * factor)


class History:
    """Makes records; one seed makes one history.

    Args:
        seed: A number, or several.
        prefix: Of the names of its runs: those of two histories in one ledger differ.
    """

    def __init__(self, seed: int | Sequence[int], prefix: str = "run") -> None:
        self._rng = np.random.default_rng(seed)
        self._names = (f"{prefix}-{number:06}" for number in count(1))

    def chance(self) -> float:
        """A number from 0 to 1."""
        return float(self._rng.random())

    def days(self, work: Work, first: date, days: int) -> Iterator[Record]:
        """The runs of so many days."""
        for offset in range(days):
            day = first + timedelta(days=offset)
            share = WEEKEND if day.weekday() >= 5 else 1.0
            for _ in range(int(self._rng.poisson(work.runs_per_weekday * share))):
                yield self.run(work, day)

    def run(self, work: Work, day: date) -> Record:
        """One run of a day."""
        rng = self._rng
        submitted_at = datetime.combine(day, time(), UTC) + timedelta(
            seconds=float(rng.uniform(6, 18)) * 3600
        )
        name = next(self._names)
        run = RunRecord(
            flow_run_id=name,
            name=name,
            flow_name=work.deployment.partition("/")[0],
            deployment=work.deployment,
            pool="gpu",
            queue="medium",
            team="bench",
            user=None,
            project=None,
            experiment=None,
            model=None,
            workload_type="training",
            priority=1000,
            submitted_at=submitted_at,
            final_state="Completed",
        )
        admitted_at = submitted_at + timedelta(seconds=float(rng.gamma(4, WAIT_S / 4)))
        # Gamma-distributed work: positive, with the wanted coefficient of variation.
        shape = 1 / work.spread**2
        left_s = float(rng.gamma(shape, work.hours * 3600 / shape))
        return run, tuple(self.attempts(work, run, admitted_at, left_s))

    def attempts(
        self, work: Work, run: RunRecord, admitted_at: datetime, left_s: float
    ) -> Iterator[Attempt]:
        """The attempts of a run with so many seconds of work, until it is done."""
        restored_from = None
        for number in count(1):
            life_s = (
                float(self._rng.exponential(3600 / work.per_hour))
                if work.per_hour
                else float("inf")
            )
            needed_s = STARTUP_S + left_s + _saves(work, left_s) * work.stall_s
            is_done = life_s >= needed_s
            held_s = needed_s if is_done else life_s
            done_s = max(0.0, held_s - STARTUP_S)
            saved_s, saves = 0.0, 0
            if work.stall_s and work.checkpoint_s is not None:
                # One save after the other, as a run makes them.
                cycle_s = work.checkpoint_s + work.stall_s
                saves = _saves(work, left_s) if is_done else int(done_s // cycle_s)
                saved_s = saves * work.checkpoint_s
            elif not is_done and work.checkpoint_s is not None:
                saved_s = max(0.0, done_s - float(self._rng.uniform(0, work.checkpoint_s)))
            began_at = admitted_at + timedelta(seconds=min(held_s, STARTUP_S))
            released_at = admitted_at + timedelta(seconds=held_s)
            checkpoint = f"{run.flow_run_id}/{number}" if saved_s else None
            yield attempt_of(
                *(work, run, number, admitted_at),
                first_step_at=began_at,
                released_at=released_at,
                end_reason=EndReason.COMPLETED if is_done else EndReason.INTERRUPTED,
                restored_from=restored_from,
                checkpoint=checkpoint,
                checkpointed_at=None
                if checkpoint is None
                else began_at + timedelta(seconds=saved_s + max(0, saves - 1) * work.stall_s),
                expected_loss_s=None
                if work.checkpoint_s is None
                else work.checkpoint_s / 2 + work.stall_s,
                saves=saves or None,
                save_stall_s=work.stall_s if saves else None,
            )
            if is_done:
                return
            left_s -= saved_s
            restored_from = checkpoint or restored_from
            admitted_at = released_at + timedelta(seconds=300)


def attempt_of(
    work: Work, run: RunRecord, number: int, admitted_at: datetime, **fields: Any
) -> Attempt:
    """An attempt on the GPUs of this work that starts at its admission."""
    return Attempt(
        attempt_id=f"{run.flow_run_id}-{number}",
        flow_run_id=run.flow_run_id,
        number=number,
        pool=run.pool,
        host="bench",
        node=f"{work.gpu_type}-{run.flow_run_id}",
        gpu_type=work.gpu_type,
        gpu_ids=tuple(str(index) for index in range(work.gpu_count)),
        capacity_type=work.capacity_type,
        price_micro_usd_per_gpu_hour=work.price_micro_usd,
        admitted_at=admitted_at,
        started_at=admitted_at,
        **fields,
    )


def _saves(work: Work, left_s: float) -> int:
    """How often is this work saved? Not at its end."""
    if not work.stall_s or work.checkpoint_s is None:
        return 0
    return max(0, math.ceil(left_s / work.checkpoint_s) - 1)
