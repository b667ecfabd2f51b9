"""A plan for people: what was understood, the ranking, why others are refused, and the verdict."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from enum import Enum
from itertools import groupby

from rich.table import Table
from rich.text import Text

from gpu_core.cli.shared.tables import print_table, simple_table
from gpu_core.cli.shared.terminal import terminal_width, wrapped
from gpu_core.decisions.model.errors import listed
from gpu_core.decisions.model.units import count, format_duration, format_usd
from gpu_core.decisions.offerings.constraints import Constraints
from gpu_core.decisions.offerings.observed_throughput import DeploymentThroughput
from gpu_core.decisions.offerings.options import Certainty, Option
from gpu_core.decisions.offerings.rank import (
    OfferingChoice,
    RankedOffering,
    price_age,
    shown_moment,
    verdict,
)
from gpu_core.decisions.requests.requirements.estimates.cpu import cpu_answer
from gpu_core.decisions.requests.requirements.estimates.duration import Basis
from gpu_core.decisions.requests.requirements.estimates.memory import Memory
from gpu_core.decisions.requests.requirements.jobs.job import Recompute
from gpu_core.decisions.requests.requirements.reading.advice import Advice
from gpu_core.decisions.requests.requirements.reading.text import Reading

_GIB = 1024**3
_MEDIUM_COLUMNS = 80
_WIDE_COLUMNS = 110
_SPEED_SOURCES = {
    Basis.PRIOR: "built-in estimate",
    Basis.OBSERVED: "measured in previous runs on this GPU type",
    Basis.TRANSFERRED: "scaled from previous runs on a different GPU type",
}
"""The source of an estimate's speed, in words."""


def print_plan(
    reading: Reading,
    choice: OfferingChoice | None,
    constraints: Constraints,
    now: datetime,
    *,
    history: DeploymentThroughput | None = None,
    top: int = 10,
) -> None:
    """The answer in three lines, then what it rests on, then the tables and the refusals."""
    for line in () if choice is None else recommendation(choice, constraints, now):
        _print_line(line)
    for line in _basis(reading, choice, history):
        _print_line(line)
    if choice is None:
        return
    if choice.candidates:
        best = choice.candidates[0].option
        kinds = _one_for_each_kind(choice.candidates)
        has_limits = constraints.deadline_at is not None or constraints.budget_micro_usd is not None
        print()
        print_table(_table(kinds[:top], _Room.of(terminal_width()), has_limits=has_limits))
        if len(kinds) > top:
            _print_line(f"{len(kinds) - top} more (use --top {len(kinds)} to show all)")
        print()
        print_table(_memory(best))
    for line in _unused(choice):
        _print_line(line)


def recommendation(
    choice: OfferingChoice, constraints: Constraints, now: datetime
) -> tuple[str, ...]:
    """The recommended offering, its run time and cost; without one, the closest offering."""
    if not choice.candidates:
        return (verdict(choice, constraints, now),)
    best, option = choice.candidates[0], choice.candidates[0].option
    key, cost = option.key, option.cost
    nodes = "" if option.nodes == 1 else f"{option.nodes} nodes, "
    where = f"{key.region} {key.zone}" if key.zone else key.region
    done = shown_moment(option.ends_at(now))
    limits = "" if best.certainty is Certainty.SAFE else ", but the upper estimate exceeds a limit"
    return (
        f"Take   {key.provider} {key.instance_type} ({nodes}{option.gpus} × {option.gpu_type}), "
        f"{key.capacity_type}, {where}",
        f"Time   {format_duration(option.wall_s)} ({format_duration(option.wall_low_s)} to "
        f"{format_duration(option.wall_high_s)}), done by {done}{limits}",
        f"Cost   {format_usd(cost.total)} ({format_usd(cost.total_low)} to "
        f"{format_usd(cost.total_high)}), {price_age(option, now)}",
    )


def _basis(
    reading: Reading, choice: OfferingChoice | None, history: DeploymentThroughput | None
) -> Iterator[str]:
    if reading.understood or reading.job is not None:
        yield f"Recognized: {'; '.join(reading.understood) or 'nothing'}"
    if reading.assumed:
        yield f"Assumed: {'; '.join(reading.assumed)}"
    if reading.not_read:
        quoted = [f"'{text}'" for text in reading.not_read]
        yield f"Ignored: {listed(quoted, limit=5)}"
    if reading.job is None:
        yield from _advice(reading.advice)
        return
    yield f"GPU: {cpu_answer(reading.job).why}"
    if history is not None:
        yield f"Learned: {history.reason(reading.job.unit)}"
    if choice is not None and choice.candidates:
        yield _notes(choice.candidates[0].option)


def _advice(advice: Advice | None) -> Iterator[str]:
    if advice is None:
        return
    yield f"GPU: {advice.need}. {advice.why}"
    if advice.ask is not None:
        yield f"For an estimate: {advice.ask}"


def _print_line(text: str) -> None:
    print(wrapped(text, "       "))


def _one_for_each_kind(candidates: Sequence[RankedOffering]) -> list[RankedOffering]:
    """The best place of each instance type and capacity type; --json has all places."""
    best: dict[tuple[str, str, str], RankedOffering] = {}
    for candidate in candidates:
        key = candidate.option.key
        best.setdefault((key.provider, key.instance_type, key.capacity_type), candidate)
    return list(best.values())


class _Room(Enum):
    """The amount of an offering that fits into a row."""

    NARROW = "the offering, its time and its cost"
    MEDIUM = "GPUs, memory, interruptions and limits, too"
    WIDE = "the place and the ranges, too"

    @classmethod
    def of(cls, columns: int | None) -> "_Room":
        """The most that a terminal of this width has room for; None: a pipe, which has all."""
        if columns is None:
            return cls.WIDE
        if columns < _MEDIUM_COLUMNS:
            return cls.NARROW
        return cls.MEDIUM if columns < _WIDE_COLUMNS else cls.WIDE


def _table(candidates: Iterable[RankedOffering], room: _Room, *, has_limits: bool) -> Table:
    """A row for each offering."""
    table = simple_table("Offerings (best location for each)")
    if room is _Room.NARROW:
        table.add_column("Offering", overflow="fold")
        for heading in ("Time", "Cost"):
            table.add_column(heading, justify="right", no_wrap=True)
        for candidate in candidates:
            table.add_row(*map(Text, _short_cells(candidate.option)))
        return table
    is_wide = room is _Room.WIDE
    for heading in ("Offering", "GPUs", *(["Where"] if is_wide else [])):
        table.add_column(heading, overflow="fold")
    for heading in ("GiB/GPU", "Time", "Cost", "Interr.", *(["Limits"] if has_limits else [])):
        table.add_column(heading, justify="right", no_wrap=True)
    for candidate in candidates:
        table.add_row(*map(Text, _cells(candidate, is_wide=is_wide, has_limits=has_limits)))
    return table


def _short_cells(option: Option) -> tuple[str, str, str]:
    offering = f"{option.key.instance_type} {option.key.capacity_type}"
    return offering, format_duration(option.wall_s), format_usd(option.cost.total)


def _cells(candidate: RankedOffering, *, is_wide: bool, has_limits: bool) -> Iterator[str]:
    option, cost = candidate.option, candidate.option.cost
    key = option.key
    yield f"{key.instance_type} {key.capacity_type}"
    yield f"{'' if option.nodes == 1 else f'{option.nodes} nodes, '}{option.gpus} {option.gpu_type}"
    if is_wide:
        yield f"{key.provider} {key.zone or key.region}"
    yield f"{option.fit.memory.bytes / _GIB:.1f}/{option.fit.usable_bytes / _GIB:.1f}"
    time = format_duration(option.wall_s)
    low_s, high_s = format_duration(option.wall_low_s), format_duration(option.wall_high_s)
    yield f"{time} ({low_s}–{high_s})" if is_wide else time
    total = format_usd(cost.total)
    low, high = format_usd(cost.total_low), format_usd(cost.total_high)
    yield f"{total} ({low}–{high})" if is_wide else total
    yield f"{option.interruption_chance:.0%}" if option.interruption_chance else "–"
    if has_limits:
        yield str(candidate.certainty)


def _memory(option: Option) -> Table:
    memory: Memory = option.fit.memory
    title = f"Memory of each GPU on {option.key.instance_type}: {_gib(memory.bytes)}"
    table = simple_table(title)
    table.add_column("Term", no_wrap=True)
    table.add_column("GiB", justify="right")
    table.add_column("Calculation")
    for term in memory.terms:
        table.add_row(term.name, f"{term.bytes / _GIB:.2f}", Text(term.arithmetic))
    return table


def _notes(option: Option) -> str:
    unknown = [
        name
        for name, value in (("storage", option.cost.storage), ("transfer", option.cost.transfer))
        if value is None
    ]
    missing = (
        f" The cost does not include {' and '.join(unknown)}, because the price is unknown."
        if unknown
        else ""
    )
    chance = option.interruption_chance
    spot = (
        f" Spot: {chance:.0%} chance of an interruption, {option.overhead - 1:.0%} more time."
        if chance
        else ""
    )
    bottleneck = "compute" if option.work.limit == "arithmetic" else option.work.limit
    speed = _SPEED_SOURCES[option.work.basis]
    return f"{_divided(option)}Bottleneck: {bottleneck}. Speed: {speed}.{spot}{missing}"


def _divided(option: Option) -> str:
    parts = []
    if option.fit.division.zero_stage:
        parts.append(f"ZeRO stage {option.fit.division.zero_stage}")
    elif option.fit.division.gpus > 1 and not option.fit.job.method.is_training:
        parts.append(f"one model copy across {option.fit.division.gpus} GPUs")
    if option.fit.job.recompute is Recompute.FULL:
        parts.append("full activation recomputation")
    return f"With {' and '.join(parts)}. " if parts else ""


def _unused(choice: OfferingChoice) -> Iterator[str]:
    """Lines with the reasons why other offerings are not in the table."""
    if choice.types_without_spot:
        names = listed([key.name for key in choice.types_without_spot], limit=6)
        yield (
            f"No spot price found in the catalog for {names}. "
            "To update the catalog, run `prefect-gpu catalog refresh`."
        )
    if choice.refused:
        excluded = count(len(choice.refused), "offering")
        yield f"Excluded {excluded} (showing one example per reason):"
    for reason, group in groupby(choice.refused, key=lambda refusal: refusal.reason):
        first, *others = group
        more = f" (and {count(len(others), 'other')})" if others else ""
        yield f"  {reason}: {first.key}: {first.summary}{more}"


def _gib(size: int) -> str:
    return f"{size / _GIB:.1f} GiB"
