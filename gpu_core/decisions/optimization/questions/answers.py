"""The answer to a question, from the ledger's rows, with where its numbers come from."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

from gpu_core.decisions.costs.anomalies.decomposition.parts import (
    Part,
    Purpose,
    parts_in,
    with_idle_apart,
)
from gpu_core.decisions.costs.capacity.idle import parts_by_node
from gpu_core.decisions.costs.reports.cost_report import COLUMNS_OF_RUNS
from gpu_core.decisions.costs.usage.usage import US_PER_HOUR, Exact, apportioned, round_half_up
from gpu_core.decisions.costs.usage.usage_cost import (
    RunCost,
    Setback,
    Window,
    attempt_usage,
    run_cost,
)
from gpu_core.decisions.model.attempts import Attempt, EndReason, RunRecord
from gpu_core.decisions.model.units import SECONDS_PER_HOUR, count, epoch_us
from gpu_core.decisions.optimization.questions.borrowing import (
    Quotas,
    borrowed_gpu_hours,
    quotas_required,
)
from gpu_core.decisions.optimization.questions.parsing import Asked
from gpu_core.decisions.optimization.questions.questions import Measure, Question, Unit

Record = tuple[RunRecord, Sequence[Attempt]]


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """One line of an answer.

    Attributes:
        key: A name, such as a team's; None: what has none.
        amount: In whole micro-USD for money, else in the unit of the question.
        flow_run_id: Of a run.
    """

    key: str | None
    amount: int | float
    flow_run_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The ledger's answer to a question."""

    asked: Asked
    rows: tuple[AnswerRow, ...]
    """The first is the answer; those of money and counts add up to the total."""
    total: int | float | None
    """The sum of all rows. None: a mean has none."""
    origin: str
    """The source of the numbers, in one sentence."""


@dataclass(frozen=True, slots=True)
class _Item:
    """An amount of a run, and what it counts in a mean."""

    run: RunRecord
    attempt: Attempt | None
    amount: Exact | float
    weight: Exact | float = 1
    day: date | None = None
    node: str | None = None
    """The node that it is about; None: the attempt's first one."""


def answer(
    asked: Asked, records: Iterable[Record], now: datetime, quotas: Quotas | None = None
) -> Answer:
    """The answer of the ledger to a question.

    Args:
        asked: The question and its time.
        records: The runs with an attempt in that time, with all their attempts.
        now: Attempts that hold their GPUs are costed up to here.
        quotas: What teams borrow beyond; None: not known.

    Raises:
        InvalidInput: The question is about quotas, and there are none.
    """
    costs = [run_cost(run, attempts, now, asked.window) for run, attempts in records]
    costs = [cost for cost in costs if cost.attempts]
    items = list(_items(asked, costs, now, quotas))
    rows = _rows(asked.question, items)
    is_mean = asked.question.kind.is_mean
    return Answer(
        asked=asked,
        rows=rows,
        total=None if is_mean else sum(row.amount for row in rows),
        origin=_origin(asked, costs),
    )


def _origin(asked: Asked, costs: Sequence[RunCost]) -> str:
    attempts = sum(len(cost.attempts) for cost in costs)
    window = asked.window
    return (
        f"{count(attempts, 'attempt')} of {count(len(costs), 'run')} in the ledger from "
        f"{window.start:%Y-%m-%d} up to {window.end:%Y-%m-%d}, UTC: {asked.question.kind.origin}"
    )


def _rows(question: Question, items: Iterable[_Item]) -> tuple[AnswerRow, ...]:
    sums: dict[str | None, Exact | float] = {}
    weights: dict[str | None, Exact | float] = {}
    names: dict[str | None, str] = {}
    for item in items:
        key = _key(question.by, item)
        names[item.run.flow_run_id] = item.run.name
        sums[key] = sums.get(key, 0) + item.amount
        weights[key] = weights.get(key, 0) + item.weight
    amounts = {key: total for key, total in sums.items() if total or question.kind.is_mean}
    if question.kind.is_mean:
        amounts = {key: float(total / weights[key]) for key, total in amounts.items()}
    whole = _whole(question.kind.unit, list(amounts.values()))
    rows = [_row(question, key, amount, names) for key, amount in zip(amounts, whole, strict=True)]
    sign = 1 if question.is_ascending else -1
    return tuple(sorted(rows, key=lambda row: (sign * row.amount, row.key or "")))


def _row(
    question: Question, key: str | None, amount: int | float, names: Mapping[str | None, str]
) -> AnswerRow:
    return AnswerRow(names[key], amount, key) if question.by == "run" else AnswerRow(key, amount)


def _whole(unit: Unit, amounts: Sequence[Exact | float]) -> list[int] | list[float]:
    if unit is Unit.USD:
        return apportioned([Fraction(amount) for amount in amounts])
    if unit is Unit.COUNT:
        return [round_half_up(Fraction(amount)) for amount in amounts]
    return [float(amount) for amount in amounts]


def _key(by: str | None, item: _Item) -> str | None:
    if by is None:
        return "all runs"
    if by == "day":
        return None if item.day is None else item.day.isoformat()
    if by == "run":
        return item.run.flow_run_id
    if by == "node" and item.node is not None:
        return item.node
    if by == "deployment":
        return item.run.deployment or item.run.flow_name
    is_of_run = by in COLUMNS_OF_RUNS or by == "queue"
    value = getattr(item.run if is_of_run else item.attempt, by, None)
    return None if value is None else str(value)


def _items(
    asked: Asked, costs: Sequence[RunCost], now: datetime, quotas: Quotas | None
) -> Iterator[_Item]:
    question, window = asked.question, asked.window
    match question.measure:
        case Measure.COST | Measure.GPU_HOURS | Measure.UNPRICED:
            return _usage(question, costs, window, now)
        case Measure.WASTE:
            return _waste(question.purposes, costs, window, now)
        case Measure.LOST | Measure.SAVED:
            return _setbacks(question, costs)
        case Measure.ENDS:
            return _ends(question.reasons, costs, window)
        case Measure.RUNS:
            return (_Item(cost.run, None, 1) for cost in costs)
        case Measure.WAIT:
            return (
                _Item(cost.run, None, cost.wait_s / SECONDS_PER_HOUR)
                for cost in costs
                if cost.wait_s is not None
            )
        case Measure.BORROWED:
            return _borrowed(costs, quotas_required(quotas), window, now)
        case Measure.HELD | Measure.BUSY:
            return _held(question.measure, costs, window, now)


def _usage(
    question: Question, costs: Sequence[RunCost], window: Window, now: datetime
) -> Iterator[_Item]:
    days = _days(window, now) if question.by == "day" else [None]
    for cost in costs:
        for attempt in cost.attempts:
            for day in days:
                part = window if day is None else Window.of_day(day)
                usage = attempt_usage(attempt, now, part)
                amount: Exact = {
                    Measure.COST: usage.exact_micro_usd,
                    Measure.GPU_HOURS: Fraction(usage.gpu_us) / US_PER_HOUR,
                    Measure.UNPRICED: Fraction(usage.unpriced_gpu_us) / US_PER_HOUR,
                }[question.measure]
                # A gang pays on each of its nodes for the GPUs that it holds there.
                for node, part_of_it in parts_by_node(attempt.held, attempt.node).items():
                    yield _Item(cost.run, attempt, amount * part_of_it, day=day, node=node)


def _borrowed(
    costs: Sequence[RunCost], quotas: Quotas, window: Window, now: datetime
) -> Iterator[_Item]:
    held = [(cost.run.team, attempt) for cost in costs for attempt in cost.attempts]
    found = borrowed_gpu_hours(held, quotas, window, now)
    one_of = {cost.run.team: cost.run for cost in costs}
    return (_Item(one_of[team], None, hours) for team, hours in found.items())


def _days(window: Window, now: datetime) -> list[date | None]:
    end = min(window.end, now.astimezone(UTC)) - timedelta(microseconds=1)
    first = window.start.date()
    return [first + timedelta(days=n) for n in range((end.date() - first).days + 1)]


def _waste(
    purposes: frozenset[Purpose], costs: Sequence[RunCost], window: Window, now: datetime
) -> Iterator[_Item]:
    parts: Iterable[Part] = parts_in(window, costs, now)
    for part in with_idle_apart(parts) if Purpose.IDLE in purposes else parts:
        if part.purpose in purposes:
            yield _Item(part.run, part.attempt, part.micro_usd)


def _setbacks(question: Question, costs: Sequence[RunCost]) -> Iterator[_Item]:
    for cost in costs:
        for setback in cost.setbacks:
            if not question.reasons or setback.attempt.end_reason in question.reasons:
                yield _Item(cost.run, setback.attempt, _of_setback(question.measure, setback))


def _of_setback(measure: Measure, setback: Setback) -> Exact:
    usage = setback.lost if measure is Measure.LOST else setback.saved
    return usage.exact_micro_usd


def _ends(
    reasons: frozenset[EndReason], costs: Sequence[RunCost], window: Window
) -> Iterator[_Item]:
    for cost in costs:
        for attempt in cost.attempts:
            ended = attempt.released_at
            if ended is not None and ended in window and attempt.end_reason in reasons:
                yield _Item(cost.run, attempt, 1)


def _held(
    measure: Measure, costs: Sequence[RunCost], window: Window, now: datetime
) -> Iterator[_Item]:
    for cost in costs:
        for attempt in cost.attempts:
            start = max(attempt.admitted_at, window.start)
            end = min(attempt.freed_at or now, window.end)
            hours = max(0, epoch_us(end) - epoch_us(start)) / US_PER_HOUR
            if measure is Measure.HELD:
                yield _Item(cost.run, attempt, hours)
                continue
            busy = [s.busy_ratio for s in attempt.gpu_summaries or () if s.busy_ratio is not None]
            if busy and hours:
                yield _Item(cost.run, attempt, hours * sum(busy) / len(busy), hours)
