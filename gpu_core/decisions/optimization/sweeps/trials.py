"""The progress of the trials of a sweep, from Prefect's states, the ledger and MLflow.

Nothing of a sweep is kept anywhere else: its budgets are those of its runs, its dollars are in the
ledger. So the next pass, in whatever process, decides from what there is.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from gpu_core.decisions.costs.usage.usage_cost import usage_until
from gpu_core.decisions.model.attempts import Attempt, EndReason
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.section import parse_budget
from gpu_core.decisions.optimization.sweeps.rungs import SweepPlan, SweepRun, SweepStep
from gpu_core.decisions.policy.capacity import CapacityPolicy
from gpu_core.decisions.spot.deadline_feasibility import BudgetStage
from gpu_core.decisions.spot.run_budget import run_budget_use, spent_micro_usd

_OVER = frozenset({"COMPLETED", "FAILED", "CRASHED", "CANCELLED", "CANCELLING"})
"""State types of Prefect after which nothing of a run runs by itself."""


_A_MOMENT = timedelta(seconds=1)


class MetricPoint(NamedTuple):
    """One value of a metric."""

    at: datetime
    value: float


class TrialStatus(StrEnum):
    """The status of a trial, for people."""

    NOT_STARTED = "not started"
    ACTIVE = "active"
    """It waits for GPUs, runs, or is suspended."""
    STOPPED = "stopped"
    """At its budget, with what it had saved."""
    COMPLETED = "completed"
    ENDED = "ended"
    """It failed, crashed or was cancelled."""
    BY_HAND = "by hand"
    """A person gave it a budget that is no rung of the sweep, which leaves it alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepTrial:
    """One trial, as it is in Prefect, in the ledger and in MLflow."""

    number: int
    """Its place in the sweep, from 1."""
    parameters: Mapping[str, object]
    """Of the flow."""
    is_kept: bool = False
    """See `SweepRun.is_kept`."""
    flow_run_id: str | None = None
    """Its flow run. None: it has not started."""
    state_type: str | None = None
    """Prefect's."""
    message: str | None = None
    """Of its state."""
    budget_micro_usd: int | None = None
    """Its job variable `budget_usd`; None: it has none."""
    attempts: tuple[Attempt, ...] = ()
    """All of it, by number."""
    points: tuple[MetricPoint, ...] = ()
    """The metric of the sweep, the oldest value first."""

    @property
    def trial_id(self) -> str:
        """By which trials of equal metrics are ordered."""
        return f"{self.number:04}"

    @property
    def has_checkpoint(self) -> bool:
        """Has it ever saved?"""
        return any(attempt.checkpoint is not None for attempt in self.attempts)

    @property
    def is_unpriced(self) -> bool:
        """Has a part of what it held, or holds, no price?"""
        return any(
            usage_until(each, each.released_at or each.admitted_at + _A_MOMENT).is_unpriced
            for each in self.attempts
        )

    @property
    def is_stopped(self) -> bool:
        """Is it over because its own budget was used up?"""
        last = self.attempts[-1] if self.attempts else None
        return (
            self.state_type == "FAILED"
            and last is not None
            and last.released_at is not None
            and last.end_reason is EndReason.BUDGET_SPENT
        )


def trial_status(plan: SweepPlan, trial: SweepTrial) -> TrialStatus:
    """The status of this trial."""
    if trial.flow_run_id is None:
        return TrialStatus.NOT_STARTED
    if trial.state_type == "COMPLETED":
        return TrialStatus.COMPLETED
    if _granted(plan, trial) is None:
        return TrialStatus.BY_HAND
    if trial.is_stopped:
        return TrialStatus.STOPPED
    is_held = bool(trial.attempts) and trial.attempts[-1].released_at is None
    return TrialStatus.ENDED if trial.state_type in _OVER and not is_held else TrialStatus.ACTIVE


def sweep_run(plan: SweepPlan, trial: SweepTrial, now: datetime) -> SweepRun:
    """How far has this trial come?

    It has reached a rung when its budget has stopped it there. The worker stops a run before its
    budget is overspent, so that it has spent a little less: the same rule counts here. What has
    completed has a result at every rung.
    """
    spent, status = spent_micro_usd(trial.attempts, now), trial_status(plan, trial)
    if status is TrialStatus.NOT_STARTED:
        return SweepRun(
            run_id=trial.trial_id,
            granted=None,
            spent_micro_usd=0,
            metrics=(),
            is_kept=trial.is_kept,
        )
    granted = _granted(plan, trial)
    if status is TrialStatus.BY_HAND:
        # What a person has granted is spent as far as the sweep's budget goes.
        spent = max(spent, trial.budget_micro_usd or 0)
    if status is TrialStatus.COMPLETED or granted is None:
        granted = plan.last_rung
    marks = (
        tuple(plan.rung_micro_usd(rung) for rung in range(plan.rungs))
        if status is TrialStatus.COMPLETED
        else _marks(plan, trial, granted)
    )
    return SweepRun(
        run_id=trial.trial_id,
        granted=granted,
        spent_micro_usd=spent,
        metrics=tuple(metric_at(trial, mark) for mark in marks),
        is_over=status in (TrialStatus.COMPLETED, TrialStatus.BY_HAND, TrialStatus.ENDED),
        is_kept=trial.is_kept,
    )


def needs_resumption(trial: SweepTrial, step: SweepStep) -> bool:
    """Must this trial be scheduled now, with the budget that it has after the step?

    A trial that has left its budget behind and that Prefect still has as running is promoted by the
    next pass. One that a pass has scheduled and not given its dollars, or the reverse, is now.
    """
    if step is SweepStep.PROMOTE:
        return trial.is_stopped or trial.state_type == "SCHEDULED"
    return step is SweepStep.CONTINUE and trial.is_stopped


def metric_at(trial: SweepTrial, micro_usd: int) -> float | None:
    """The value of the metric when the trial had cost this much.

    Returns:
        The last one by then; a later value is not looked at, whatever it is. None: there was none,
        or it was no number, as that of a training that has diverged.
    """
    points = trial.points
    known = bisect_right(points, micro_usd, key=lambda p: spent_micro_usd(trial.attempts, p.at))
    value = points[known - 1].value if known else None
    return value if value is not None and math.isfinite(value) else None


def budget_micro_usd(usd: object) -> int | None:
    """The job variable `budget_usd` of a trial in micro-USD; None: it cannot be one."""
    try:
        return parse_budget(usd, "budget_usd")
    except InvalidInput:
        return None


def rung_of_budget(plan: SweepPlan, budget_micro_usd: int | None) -> int | None:
    """The rung at which a run with this budget stops; None: none of them."""
    rungs = range(plan.rungs)
    return next((rung for rung in rungs if plan.rung_micro_usd(rung) == budget_micro_usd), None)


def _granted(plan: SweepPlan, trial: SweepTrial) -> int | None:
    return rung_of_budget(plan, trial.budget_micro_usd)


def _marks(plan: SweepPlan, trial: SweepTrial, granted: int) -> tuple[int, ...]:
    """The cost of the trial at each rung that it has reached, at most the rung's budget."""
    marks: list[int] = []
    for rung in range(granted + 1):
        limit = plan.rung_micro_usd(rung)
        ends = range(1, len(trial.attempts) + 1)
        stops = (_spent_at_stop(trial.attempts[:end], limit) for end in ends)
        spent = next((spent for spent in stops if spent is not None), None)
        if spent is None:
            break
        marks.append(min(limit, spent))
    return tuple(marks)


def _spent_at_stop(attempts: Sequence[Attempt], budget_micro_usd: int) -> int | None:
    """The cost of the run when the last of these was stopped.

    None: this budget would not stop it there.
    """
    last = attempts[-1]
    asked, due, ended = last.drain_requested_at, last.drain_deadline_at, last.released_at
    if last.end_reason is not EndReason.BUDGET_SPENT:
        return None
    if asked is None or due is None or ended is None:
        return None
    used = run_budget_use(
        attempts,
        budget_micro_usd=budget_micro_usd,
        grace_s=(due - asked).total_seconds(),
        policy=CapacityPolicy(),
        now=asked,
    )
    return spent_micro_usd(attempts, ended) if used.stage is BudgetStage.STOP else None
