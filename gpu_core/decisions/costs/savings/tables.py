"""Savings as people read them: a few tables, for a terminal and for a page of Markdown."""

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from gpu_core.decisions.costs.savings.gpu_type_choice import CheaperType
from gpu_core.decisions.costs.savings.month_savings import (
    Cluster,
    Commitment,
    MonthSavings,
    SpotSavings,
)
from gpu_core.decisions.model.units import format_usd

_MOST_ROWS = 10
_UNKNOWN = "unknown"
_CLUSTERS = {
    Cluster.PEAK: "peak",
    Cluster.CAP: "max_gpus",
    Cluster.COMMITTED: "committed",
}
_OPTIONAL = ("no commitment", "other terms")


class SavingsTable(NamedTuple):
    """A table of plain texts; the cells after the first are numbers.

    A window of 400 px shows three columns of a page, and a page shortens a cell of over 22
    characters: labels are shorter, and what a table is read for is in its second column.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def savings_tables(found: MonthSavings) -> tuple[SavingsTable, ...]:
    """The tables of actual and possible savings; tables without a row are left out."""
    tables = (
        SavingsTable("Spot and on demand", ("Machine-hours of the time", "USD"), _terms(found)),
        _clusters(found),
        SavingsTable(
            "Commitments for on-demand machines",
            ("Machine", "Saves", "Commit", "Number", "There for"),
            tuple(row for each in found.commitments for row in _commitment(each)),
        ),
        SavingsTable(
            "Cheaper GPU types",
            ("Deployment", "Saves", "Cheaper", "On", "Runs", "Below"),
            tuple(map(_type, found.cheaper_types[:_MOST_ROWS])),
        ),
    )
    return tuple(table for table in tables if table.rows)


def savings_notes(found: MonthSavings) -> tuple[str, ...]:
    """Notes on amounts that are in no sum or cannot be compared, and on projections."""
    notes = [
        f"{hours:,.2f} GPU-hours of {kind} are excluded from all totals because of unknown prices"
        for kind, hours in found.unpriced
    ]
    if found.micro_usd and Cluster.CAP in found.unknown_clusters:
        notes.append(
            "To compare with a cluster of the maximum size, set `scale.max_gpus` in the policy"
        )
    if found.micro_usd and Cluster.COMMITTED in found.unknown_clusters:
        notes.append(
            "To compare with a committed cluster, specify a `reserved` price or "
            "`--committed-percent`"
        )
    if found.cheaper_types:
        notes.append(
            "Savings from other GPU types are estimates that assume the same amount of work for "
            "each run of a deployment"
        )
    return tuple(notes)


def _terms(found: MonthSavings) -> tuple[tuple[str, ...], ...]:
    if found.micro_usd is None or found.on_demand_micro_usd is None or found.spot is None:
        return ()
    spot = found.spot
    reserved = found.on_demand_micro_usd - spot.micro_usd - found.micro_usd
    return (
        ("on demand", format_usd(found.on_demand_micro_usd)),
        ("saved by spot", _less(spot.micro_usd)),
        *((("saved by other terms", _less(reserved)),) if reserved else ()),
        ("paid", format_usd(found.micro_usd)),
        *_interruptions(spot),
        ("lowest in hindsight", _usd(found.best_micro_usd)),
    )


def _interruptions(spot: SpotSavings) -> Iterator[tuple[str, str]]:
    if not spot.gpu_us:
        return
    yield "lost to interruptions", _usd(spot.interruptions_micro_usd)
    yield "net saving by spot", _usd(spot.net_micro_usd)


def _clusters(found: MonthSavings) -> SavingsTable:
    """A column for each cluster: from its cost, by what was saved, to the month's."""
    each = found.clusters
    parts = (
        ("the cluster", [format_usd(c.micro_usd) for c in each]),
        ("no commitment", [_less(-c.commitment_micro_usd) for c in each]),
        ("elasticity", [_less(c.elasticity_micro_usd) for c in each]),
        ("spot", [_less(c.spot_micro_usd) for c in each]),
        ("other terms", [_less(c.reserved_micro_usd) for c in each]),
        ("paid", [_usd(found.micro_usd) for _ in each]),
    )
    zero = format_usd(0)
    rows = [
        (name, *cells)
        for name, cells in parts
        if name not in _OPTIONAL or any(cell != zero for cell in cells)
    ]
    head = ("USD", *(f"{_CLUSTERS[c.cluster]}: {c.gpus:,} GPUs" for c in each))
    return SavingsTable("Against a fixed cluster", head, tuple(rows) if each else ())


def _commitment(each: Commitment) -> Iterator[tuple[str, ...]]:
    """A row for machines that were there for the same part of the time."""
    first = 1
    for percent, group in groupby(each.held_ratios, key=lambda ratio: f"{100 * ratio:.0f}%"):
        last = first + len(list(group)) - 1
        is_first = first == 1
        yield (
            str(each.kind) if is_first else "",
            _usd(each.micro_usd) if is_first else "",
            (_UNKNOWN if each.machines is None else f"{each.machines:,}") if is_first else "",
            f"{first}" if first == last else f"{first} to {last}",
            percent,
        )
        first = last + 1


def _type(each: CheaperType) -> tuple[str, ...]:
    return (
        each.deployment,
        _usd(each.micro_usd) if each.is_measured else "not tried",
        each.cheaper,
        each.gpu_type,
        f"{each.runs:,}",
        f"{each.pays_below:.2f} × the time",
    )


def _usd(micro_usd: int | None) -> str:
    return _UNKNOWN if micro_usd is None else format_usd(micro_usd)


def _less(micro_usd: int) -> str:
    """The deducted amount, with its sign."""
    if micro_usd == 0:
        return format_usd(0)
    return f"{'-' if micro_usd > 0 else '+'}{format_usd(abs(micro_usd))}"
