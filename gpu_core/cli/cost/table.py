"""A cost report as a table, as JSON and as CSV."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any

from rich.table import Table

from gpu_core.decisions.costs.reports.cost_report import CostReport, CostRow, together
from gpu_core.decisions.costs.usage.time_use import TimeUse
from gpu_core.decisions.costs.usage.usage import NO_USAGE, Usage
from gpu_core.decisions.model.units import MICRO_USD_PER_USD, SECONDS_PER_HOUR, format_usd

_OPTIONAL = ("Core-hours", "GiB-hours", "Idle", "Reconciled", "Billed")
_COUNTS = ("Runs", "Attempts")
_LEAST_NAME_WIDTH = 7
_PADDING = 3
_USE_HEADINGS = {
    TimeUse.USEFUL: "Useful",
    TimeUse.LOST: "Lost",
    TimeUse.RESTART: "Restart",
    TimeUse.QUEUED_ON_NODE: "Queued",
}


class Show(StrEnum):
    """The numbers in a table."""

    USAGE = "usage"
    """GPU-hours, and core-hours and GiB-hours if any."""
    RESOURCES = "resources"
    """The cost of GPUs, CPU and memory."""
    TIME = "time"
    """The cost by what the time was used for."""


def report_table(
    report: CostReport, limit: int, show: Show = Show.USAGE, width: int | None = None
) -> Table:
    """The most expensive rows, the others in one, and the total.

    Args:
        report: All rows.
        limit: The number of rows that are shown one by one.
        show: Which numbers.
        width: Columns of the terminal. Numbers that do not fit are left out; None: all fit.
    """
    shown, others = report.rows[:limit], report.rows[limit:]
    labels = [tuple("(none)" if key is None else str(key) for key in row.keys) for row in shown]
    rows = list(shown)
    if others:
        labels.append(_label(report.keys, f"{len(others):,} others"))
        rows.append(together(others))
    total = replace(together(rows), runs=report.runs)
    ends = [("all runs", _cells(total, show))]
    if report.idle != NO_USAGE:
        ends += _idle_ends(report, total, show)
    if report.faults != NO_USAGE:
        ends.append(_end("of idle: faulty GPUs", report.faults, report.faults_micro_usd, show))
    empty = dict.fromkeys(ends[0][1], "")
    cells = [_cells(row, show) for row in rows]
    every = [*cells, *(empty | row for _, row in ends)]
    columns = [name for name in every[0] if name not in _OPTIONAL or _is_in_use(name, every)]
    widths = {name: max(len(name), *(len(row[name]) for row in every)) for name in columns}
    fitting = _fitting(widths, width, len(report.keys))
    left_out = [name for name in columns if name not in fitting]
    table = Table(title=_title(report))
    if left_out:
        table.caption = f"Columns omitted (terminal too narrow): {', '.join(left_out)}"
    columns = fitting
    for key in report.keys:
        table.add_column(_heading(key), overflow="fold")
    for name in columns:
        # Numbers are never cut; names break over lines instead.
        table.add_column(name, justify="right", min_width=widths[name], no_wrap=True)
    for label, row in zip(labels, cells, strict=True):
        table.add_row(*label, *(row[name] for name in columns))
    table.add_section()
    for text, row in ends:
        table.add_row(*_label(report.keys, text), *((empty | row)[name] for name in columns))
    return table


def _fitting(widths: Mapping[str, int], width: int | None, keys: int) -> list[str]:
    """The columns of numbers that leave room for the names; the cost always stays."""
    fitting = list(widths)
    if width is None:
        return fitting
    room = width - 1 - keys * (_LEAST_NAME_WIDTH + _PADDING)
    for name in sorted(widths, key=lambda name: (name not in _COUNTS, name == "Cost")):
        if name == "Cost" or sum(widths[each] + _PADDING for each in fitting) <= room:
            return fitting
        fitting.remove(name)
    return fitting


def _is_in_use(name: str, rows: Sequence[Mapping[str, str]]) -> bool:
    return any(row[name] not in ("", "0.00", format_usd(0)) for row in rows)


def _idle_ends(report: CostReport, total: CostRow, show: Show) -> list[tuple[str, dict[str, str]]]:
    """The line of idle capacity, and what all of it costs."""
    whole = total.micro_usd + report.idle_micro_usd
    return [
        _end("idle", report.idle, report.idle_micro_usd, show),
        _end("runs and idle", total.usage + report.idle, whole, show),
    ]


def _end(text: str, usage: Usage, micro_usd: int, show: Show) -> tuple[str, dict[str, str]]:
    """A line that is no group's."""
    return text, _hours(usage, show) | {"Cost": _cost(usage, micro_usd)}


def _heading(key: str) -> str:
    words = key.replace("_", " ")
    return words.replace("gpu", "GPU") if words.startswith("gpu") else words.capitalize()


def report_document(report: CostReport) -> dict[str, Any]:
    """The report for machines: money in micro-USD, unknown as null."""
    return {
        "start": report.window.start.isoformat(),
        "end": report.window.end.isoformat(),
        "by": list(report.keys),
        "rows": [
            dict(zip(report.keys, row.keys, strict=True)) | _numbers(row) for row in report.rows
        ],
        "total": _numbers(report.total),
        "idle": _numbers_of(report.idle, report.idle_micro_usd),
        "faults": _numbers_of(report.faults, report.faults_micro_usd),
        "beyond_micro_usd": report.beyond_micro_usd,
    }


def _numbers_of(usage: Usage, micro_usd: int) -> dict[str, Any] | None:
    """The numbers of a part of the usage; None: there is none of it."""
    if usage == NO_USAGE:
        return None
    is_unknown = _is_unknown(usage)
    return {
        "gpu_hours": usage.gpu_hours,
        "unpriced_gpu_hours": usage.unpriced_gpu_s / SECONDS_PER_HOUR,
        "cost_micro_usd": None if is_unknown else micro_usd,
        "cost_usd": None if is_unknown else micro_usd / MICRO_USD_PER_USD,
    }


def report_csv(report: CostReport) -> str:
    """The rows, with a head."""
    out = io.StringIO()
    document = report_document(report)
    writer = csv.DictWriter(out, [*report.keys, *document["total"]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(document["rows"])
    return out.getvalue()


def _title(report: CostReport) -> str:
    start, end = report.window.start, report.window.end
    return f"Cost from {start:%Y-%m-%d} up to {end:%Y-%m-%d}, UTC"


def _label(keys: Sequence[str], text: str) -> tuple[str, ...]:
    return (text, *("" for _ in keys[1:]))


def _cells(row: CostRow, show: Show) -> dict[str, str]:
    usage = row.usage
    return {
        "Runs": f"{row.runs:,}",
        **_shown(row, usage, show),
        "Cost": _cost(usage, row.micro_usd),
        "Idle": _cost(row.idle, row.idle_micro_usd),
        "Reconciled": "" if row.bill is None else format_usd(row.bill.charged_micro_usd),
        "Billed": "" if row.bill is None else format_usd(row.bill.billed_micro_usd),
    }


def _shown(row: CostRow, usage: Usage, show: Show) -> dict[str, str]:
    if show is Show.RESOURCES:
        cost = row.micro_usd_by_resource()
        names = {"GPU": "gpu", "CPU": "cpu", "Memory": "memory"}
        return {heading: format_usd(cost[name]) for heading, name in names.items()}
    if show is Show.TIME:
        cost_of = row.micro_usd_by_use()
        return {heading: format_usd(cost_of[use]) for use, heading in _USE_HEADINGS.items()}
    return {"Attempts": f"{row.attempts:,}"} | _hours(usage, show)


def _hours(usage: Usage, show: Show) -> dict[str, str]:
    if show is not Show.USAGE:
        return {}
    return {
        "GPU-hours": f"{usage.gpu_hours:,.2f}",
        "Core-hours": f"{usage.cpu_hours:,.2f}",
        "GiB-hours": f"{usage.gib_hours:,.2f}",
    }


def _cost(usage: Usage, micro_usd: int) -> str:
    if not usage.is_unpriced:
        return format_usd(micro_usd)
    if not usage.exact_micro_usd:
        return "unpriced"
    return f"{format_usd(micro_usd)} + unpriced"


def _is_unknown(usage: Usage) -> bool:
    return usage.is_unpriced and not usage.exact_micro_usd


def _numbers(row: CostRow) -> dict[str, Any]:
    usage = row.usage
    is_unknown = _is_unknown(usage)
    micro_usd = {"cost_micro_usd": row.micro_usd}
    for resource, cost in row.micro_usd_by_resource().items():
        micro_usd[f"{resource}_cost_micro_usd"] = cost
    for use, cost in row.micro_usd_by_use().items():
        micro_usd[f"{use}_cost_micro_usd"] = cost
    return {
        "runs": row.runs,
        "attempts": row.attempts,
        "gpu_hours": usage.gpu_hours,
        "cpu_core_hours": usage.cpu_hours,
        "memory_gib_hours": usage.gib_hours,
        "unpriced_gpu_hours": usage.unpriced_gpu_s / SECONDS_PER_HOUR,
        "unpriced_cpu_only_hours": float(usage.unpriced_us) / 1e6 / SECONDS_PER_HOUR,
        **{f"{use}_gpu_hours": row.gpu_hours(use) for use in TimeUse},
        "cost_usd": None if is_unknown else row.micro_usd / MICRO_USD_PER_USD,
        **{name: None if is_unknown else cost for name, cost in micro_usd.items()},
        "idle_micro_usd": None if _is_unknown(row.idle) else row.idle_micro_usd,
        "reconciled_micro_usd": None if row.bill is None else row.bill.charged_micro_usd,
        "billed_micro_usd": None if row.bill is None else row.bill.billed_micro_usd,
    }
