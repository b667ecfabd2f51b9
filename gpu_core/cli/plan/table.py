"""A plan for people: what was understood, the ranking, why others are refused, and the verdict."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpu_core.decisions.catalog.offerings import TypeKey
from gpu_core.decisions.model.errors import listed
from gpu_core.decisions.model.units import count, format_duration, format_usd
from gpu_core.decisions.offerings.constraints import Wishes
from gpu_core.decisions.offerings.observed_throughput import History
from gpu_core.decisions.offerings.options import Option, Refusal
from gpu_core.decisions.offerings.rank import Choice, RankedOffering, verdict
from gpu_core.decisions.requirements.cpu import cpu_answer
from gpu_core.decisions.requirements.job import Recompute
from gpu_core.decisions.requirements.memory import Memory
from gpu_core.decisions.requirements.reading.advice import Advice
from gpu_core.decisions.requirements.reading.text import Reading

_GIB = 1024**3


def print_reading(console: Console, reading: Reading, history: History | None = None) -> None:
    """What was understood and assumed, and whether a GPU is needed at all."""
    if reading.understood or reading.job is not None:
        _line(console, "Understood", "; ".join(reading.understood) or "nothing")
    if reading.assumed:
        _line(console, "Assumed", "; ".join(reading.assumed))
    if reading.job is None:
        _print_advice(console, reading.advice)
        return
    _line(console, "GPU", cpu_answer(reading.job).why)
    if history is not None:
        _line(console, "Learned", history.reason(reading.job.unit))


def _print_advice(console: Console, advice: Advice | None) -> None:
    if advice is None:
        return
    _line(console, "GPU", f"{advice.need}: {advice.why}")
    if advice.ask is not None:
        _line(console, "For an estimate", advice.ask)


def print_choice(console: Console, choice: Choice, wishes: Wishes, now: datetime, top: int) -> None:
    """The best offerings, the memory of the first, the reasons of the others, the verdict."""
    if choice.candidates:
        places = _one_for_each_kind(choice.candidates)
        console.print(_table(places[:top]))
        if len(places) > top:
            console.print(f"and {len(places) - top} more; --top shows them")
        console.print(_memory(choice.candidates[0].option))
        console.print(_notes(choice.candidates[0].option), highlight=False)
    if choice.types_without_spot:
        console.print(Text(_without_spot(choice.types_without_spot)), soft_wrap=True)
    for line in _refused(choice.refused):
        console.print(Text(line), soft_wrap=True)
    console.print(Text(verdict(choice, wishes, now), style="bold"), soft_wrap=True)


def _line(console: Console, name: str, text: str) -> None:
    console.print(Text(f"{name}: {text}"), soft_wrap=True)


def _one_for_each_kind(candidates: Sequence[RankedOffering]) -> list[RankedOffering]:
    """The best place of each instance type and capacity type; --json has all places."""
    best: dict[tuple[str, str, str], RankedOffering] = {}
    for candidate in candidates:
        key = candidate.option.key
        best.setdefault((key.provider, key.instance_type, key.capacity_type), candidate)
    return list(best.values())


def _table(candidates: Iterable[RankedOffering]) -> Table:
    table = Table(title="Offerings, the best place of each", title_justify="left")
    for heading in ("Offering", "GPUs"):
        table.add_column(heading, overflow="fold")
    for heading in ("GiB per GPU", "Time", "Cost", "Interrupted", "Sure"):
        table.add_column(heading, justify="right")
    for candidate in candidates:
        table.add_row(*map(Text, _cells(candidate)))
    return table


def _cells(candidate: RankedOffering) -> tuple[str, ...]:
    option, cost = candidate.option, candidate.option.cost
    key = option.key
    memory = f"{option.fit.memory.bytes / _GIB:.1f} of {option.fit.usable_bytes / _GIB:.1f}"
    nodes = "" if option.nodes == 1 else f"{option.nodes} nodes, "
    chance = f"{option.interruption_chance:.0%}" if option.interruption_chance else "–"
    return (
        f"{key.provider} {key.instance_type} {key.zone or key.region} {key.capacity_type}",
        f"{nodes}{option.gpus} {option.gpu_type}",
        memory,
        f"{format_duration(option.wall_s)}\n"
        f"{format_duration(option.wall_low_s)} – {format_duration(option.wall_high_s)}",
        f"{format_usd(cost.total)}\n{format_usd(cost.total_low)} – {format_usd(cost.total_high)}",
        f"{chance}\n+{option.overhead - 1:.0%} time" if option.interruption_chance else chance,
        str(candidate.certainty),
    )


def _memory(option: Option) -> Table:
    memory: Memory = option.fit.memory
    table = Table(title=f"Memory of each GPU of the first: {_gib(memory.bytes)}")
    table.title_justify = "left"
    table.add_column("Term")
    table.add_column("GiB", justify="right")
    table.add_column("Arithmetic")
    for term in memory.terms:
        table.add_row(term.name, f"{term.bytes / _GIB:.2f}", Text(term.arithmetic))
    return table


def _notes(option: Option) -> str:
    unknown = [
        name
        for name, value in (("storage", option.cost.storage), ("transfer", option.cost.transfer))
        if value is None
    ]
    missing = f" Not in the cost, as nobody knows it: {' and '.join(unknown)}." if unknown else ""
    return (
        f"{_divided(option)}Held up by {option.work.limit}; speed by {option.work.basis}.{missing}"
    )


def _divided(option: Option) -> str:
    parts = []
    if option.fit.division.zero_stage:
        parts.append(f"ZeRO stage {option.fit.division.zero_stage}")
    elif option.fit.division.gpus > 1 and not option.fit.job.method.is_training:
        parts.append(f"one copy over {option.fit.division.gpus} GPUs")
    if option.fit.job.recompute is Recompute.FULL:
        parts.append("all activations recomputed")
    return f"With {' and '.join(parts)}. " if parts else ""


def _refused(refused: Sequence[Refusal]) -> list[str]:
    lines = []
    for reason, group in groupby(refused, key=lambda refusal: refusal.reason):
        refusals = list(group)
        first = refusals[0]
        more = "" if len(refusals) == 1 else f" (and {count(len(refusals) - 1, 'other')})"
        lines.append(f"{reason}: {first.key} {first.summary}{more}")
    return lines


def _without_spot(types: Sequence[TypeKey]) -> str:
    names = listed([key.name for key in types], limit=6)
    return f"No spot price is known of {names}: refresh the catalog to plan with their spot."


def _gib(size: int) -> str:
    return f"{size / _GIB:.1f} GiB"
