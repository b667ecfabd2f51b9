"""The parts of a day's cost: the holder, the GPUs, the time, the price and the use."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from enum import StrEnum
from fractions import Fraction

from gpu_core.decisions.costs.usage.time_use import USES, TimeUse, uses_of_attempt
from gpu_core.decisions.costs.usage.usage import Exact
from gpu_core.decisions.costs.usage.usage_cost import RunCost, Window
from gpu_core.decisions.model.attempts import Attempt, EndReason, RunRecord

_FAILURES = (EndReason.FAILED, EndReason.CRASHED)
_TAKEN = (
    EndReason.PREEMPTED,
    EndReason.INTERRUPTED,
    EndReason.BUDGET_HELD,
    EndReason.SUSPENDED,
)


class Purpose(StrEnum):
    """The purpose of a part of the held time."""

    WORK = "work"
    """Progress, with a first start; also that of runs which a person or a limit stopped."""
    IDLE = "idle"
    """The GPUs were measured to be idle."""
    NODE_WAIT = "node_wait"
    """From admission until the process was created."""
    RETRY = "retry"
    """Lost with a failed attempt of a run that had several, or used to start again after it."""
    FAULT = "fault"
    """Lost with the only attempt of a run, which failed."""
    INTERRUPTION = "interruption"
    """Lost when GPUs were taken away, or used to start again afterwards."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A part of an attempt's time in a day, at one price and for one purpose."""

    day: date
    run: RunRecord
    attempt: Attempt
    purpose: Purpose
    held_us: Exact
    units: Exact
    """GPU-microseconds; of a run without GPUs its microseconds."""
    gpu_micro_usd: Exact
    other_micro_usd: Exact
    """The cost of CPU and memory that have a price of their own."""
    idle: Fraction | None
    """The idle part of the GPUs' time; None: not measured."""

    @property
    def micro_usd(self) -> Exact:
        """The cost of this part."""
        return self.gpu_micro_usd + self.other_micro_usd

    @property
    def source(self) -> str:
        """The run's deployment, or its flow where it has none."""
        return self.run.deployment or self.run.flow_name


def parts_of_day(day: date, costs: Iterable[RunCost], now: datetime) -> tuple[Part, ...]:
    """The parts of the cost of these runs on this day. Only what has a price counts.

    Args:
        day: A UTC day.
        costs: What each run cost on it.
        now: Attempts that still hold their GPUs count up to here.
    """
    return tuple(parts_in(Window.of_day(day), costs, now))


def parts_in(window: Window, costs: Iterable[RunCost], now: datetime) -> Iterator[Part]:
    """The same of any time; all parts have its first day."""
    return (
        part
        for cost in costs
        for attempt in cost.attempts
        for part in _parts(window, cost, attempt, now)
    )


def _parts(window: Window, cost: RunCost, attempt: Attempt, now: datetime) -> Iterator[Part]:
    idle, day = _idle(attempt), window.start.date()
    for tariff, uses_us in uses_of_attempt(attempt, now, window):
        unit = tariff.unit
        if not unit.exact_micro_usd:
            continue
        for use, us in zip(USES, uses_us, strict=True):
            if us:
                yield Part(
                    day=day,
                    run=cost.run,
                    attempt=attempt,
                    purpose=_purpose(use, attempt, cost.attempts),
                    held_us=us,
                    units=us * (unit.gpu_us or 1),
                    gpu_micro_usd=us * unit.gpu_micro_usd,
                    other_micro_usd=us * (unit.cpu_micro_usd + unit.gib_micro_usd),
                    idle=idle,
                )


def _purpose(use: TimeUse, attempt: Attempt, attempts: Sequence[Attempt]) -> Purpose:
    if use is TimeUse.USEFUL:
        return Purpose.WORK
    if use is TimeUse.QUEUED_ON_NODE:
        return Purpose.NODE_WAIT
    if use is TimeUse.RESTART:
        before = {each.number: each.end_reason for each in attempts}.get(attempt.number - 1)
        return Purpose.RETRY if before in _FAILURES else Purpose.INTERRUPTION
    if attempt.end_reason in _TAKEN:
        return Purpose.INTERRUPTION
    if attempt.end_reason not in _FAILURES:
        return Purpose.WORK
    return Purpose.RETRY if attempt.number > 1 or len(attempts) > 1 else Purpose.FAULT


def _idle(attempt: Attempt) -> Fraction | None:
    """The part of its time in which its GPUs were idle; None: a GPU was not measured."""
    summaries = attempt.gpu_summaries or ()
    busy = [s.busy_ratio for s in summaries if s.busy_ratio is not None and not s.is_simulated]
    if not summaries or len(busy) < len(summaries):
        return None
    return 1 - Fraction(round(1000 * sum(busy) / len(busy)), 1000)


def with_idle_apart(parts: Iterable[Part]) -> Iterator[Part]:
    """The same parts with idle GPUs as parts of their own; all work must have been measured."""
    for part in parts:
        if part.purpose is not Purpose.WORK or not part.idle:
            yield part
            continue
        if part.idle < 1:
            yield _share(part, Purpose.WORK, 1 - part.idle)
        yield _share(part, Purpose.IDLE, part.idle)


def _share(part: Part, purpose: Purpose, share: Fraction) -> Part:
    return replace(
        part,
        purpose=purpose,
        held_us=part.held_us * share,
        units=part.units * share,
        gpu_micro_usd=part.gpu_micro_usd * share,
        other_micro_usd=part.other_micro_usd * share,
    )
