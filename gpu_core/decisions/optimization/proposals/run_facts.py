"""The facts of the ledger about each finished run, as proposals need them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from gpu_core.decisions.costs.usage.usage_cost import Window, run_cost
from gpu_core.decisions.model.attempts import Attempt, EndReason, RunRecord
from gpu_core.decisions.model.units import SECONDS_PER_HOUR
from gpu_core.decisions.model.work_done import has_ended, work_s

Record = tuple[RunRecord, Sequence[Attempt]]


@dataclass(frozen=True, slots=True, order=True)
class Configuration:
    """On what a run was."""

    gpu_type: str
    gpu_count: int
    capacity_type: str

    def __str__(self) -> str:
        """As people write it: `4 × a10g, spot`."""
        return f"{self.gpu_count} × {self.gpu_type}, {self.capacity_type}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFact:
    """One run that has ended."""

    run: RunRecord
    attempts: tuple[Attempt, ...]
    """Those that held GPUs, by number."""
    configuration: Configuration | None
    """Its configuration. None: its attempts were on different ones, or on several nodes."""
    work_s: float
    """The time that its work takes without interruption."""
    held_s: float
    """How long all its attempts held their GPUs."""
    startup_s: float
    """From an attempt's admission to its first step, the mean over the attempts."""
    wait_s: float
    """From submission to the first admission."""
    cost_micro_usd: int | None
    """Its cost. None: a part of it has no price."""
    is_completed: bool

    @property
    def day(self) -> date:
        """The UTC day of its submission."""
        return self.run.submitted_at.astimezone(UTC).date()

    @property
    def gpus(self) -> float:
        """GPUs that it held, those of its last attempt."""
        return float(self.attempts[-1].gpus)

    @property
    def work_gpu_h(self) -> float:
        """GPU-hours of work, without what interruptions cost."""
        return self.work_s * self.gpus / SECONDS_PER_HOUR

    @property
    def useful_s(self) -> float:
        """The time of its work without interruptions and saves, as far as saves were measured."""
        *interrupted, last = self.attempts
        stalled_s = sum(map(stalled_before_newest_save_s, interrupted))
        return max(0.0, self.work_s - stalled_s - (last.saves or 0) * (last.save_stall_s or 0.0))

    @property
    def useful_gpu_h(self) -> float:
        """GPU-hours of work, without what interruptions and saves cost."""
        return self.useful_s * self.gpus / SECONDS_PER_HOUR

    @property
    def held_gpu_h(self) -> float:
        """GPU-hours that it held."""
        return self.held_s * self.gpus / SECONDS_PER_HOUR


def run_facts(records: Iterable[Record], window: Window, now: datetime) -> tuple[RunFact, ...]:
    """The runs of this window that held GPUs and are over, in the order of submission.

    Args:
        records: Runs with all their attempts, in any order.
        now: Costs of attempts that are open are counted up to here; there are none in the answer.
    """
    found = [
        _fact(run, held, now)
        for run, attempts in records
        if run.submitted_at in window and (held := _held(attempts)) and has_ended(held)
    ]
    return tuple(sorted(found, key=lambda fact: (fact.run.submitted_at, fact.run.flow_run_id)))


def _held(attempts: Sequence[Attempt]) -> tuple[Attempt, ...]:
    held = (attempt for attempt in attempts if attempt.has_run and attempt.gpu_ids)
    return tuple(sorted(held, key=lambda attempt: attempt.number))


def _fact(run: RunRecord, attempts: tuple[Attempt, ...], now: datetime) -> RunFact:
    kinds = {
        Configuration(a.gpu_type, a.gpu_count, a.capacity_type)
        for a in attempts
        if a.gpu_type is not None
    }
    is_on_one_node = all(len(attempt.held) == 1 for attempt in attempts)
    waited_s = (attempts[0].admitted_at - run.submitted_at).total_seconds()
    return RunFact(
        run=run,
        attempts=attempts,
        configuration=kinds.pop() if len(kinds) == 1 and is_on_one_node else None,
        work_s=work_s(attempts),
        held_s=sum(held_s(attempt) for attempt in attempts),
        startup_s=sum(_startup_s(attempt) for attempt in attempts) / len(attempts),
        # Submission is stamped by Prefect's server, admission by the worker: clocks differ.
        wait_s=max(0.0, waited_s),
        cost_micro_usd=run_cost(run, attempts, now).total_micro_usd,
        is_completed=attempts[-1].end_reason is EndReason.COMPLETED,
    )


def held_s(attempt: Attempt) -> float:
    """How long did this attempt, which is over, hold its GPUs?"""
    assert attempt.released_at is not None  # noqa: S101 - asked of runs that have ended
    return max(0.0, (attempt.released_at - attempt.admitted_at).total_seconds())


def stalled_before_newest_save_s(attempt: Attempt) -> float:
    """How long had it stood still for saves when the newest one began (`checkpointed_at`)?"""
    return max(0, (attempt.saves or 0) - 1) * (attempt.save_stall_s or 0.0)


def _startup_s(attempt: Attempt) -> float:
    began_at = attempt.first_step_at or attempt.started_at or attempt.admitted_at
    return max(0.0, (began_at - attempt.admitted_at).total_seconds())
