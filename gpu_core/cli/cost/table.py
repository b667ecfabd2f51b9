"""A cost report as a table, as JSON and as CSV."""

import csv
import io
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from gpu_core.decisions.costs.cost_report import CostReport, CostRow, Keys
from gpu_core.decisions.costs.usage import NO_USAGE, Usage, sum_usage
from gpu_core.decisions.model.units import MICRO_USD_PER_USD, SECONDS_PER_HOUR, format_usd

_NUMBERS = ("Runs", "Attempts", "GPU-hours", "Core-hours", "GiB-hours", "Cost", "Idle")


def report_table(report: CostReport, limit: int) -> Table:
    """The dearest rows, the others in one, and the total."""
    shown, others = report.rows[:limit], report.rows[limit:]
    rows = [(tuple(key or "(none)" for key in row.keys), row) for row in shown]
    if others:
        rows.append((_label(report.keys, f"{len(others)} others"), _together(others)))
    all_runs = _together(report.rows)
    ends = [(_label(report.keys, "all runs"), all_runs)]
    if report.idle != NO_USAGE:
        idle = _idle_row(report)
        ends += [(_label(report.keys, "idle"), idle), (_label(report.keys, "runs and idle"),
                                                       _together([all_runs, idle]))]  # fmt: skip
    is_seen = {
        "Core-hours": any(row.usage.cpu_us or row.usage.gib_us for _, row in (*rows, *ends)),
        "GiB-hours": any(row.usage.cpu_us or row.usage.gib_us for _, row in (*rows, *ends)),
        "Idle": any(row.idle != NO_USAGE for row in report.rows),
    }
    columns = [name for name in _NUMBERS if is_seen.get(name, True)]
    table = Table(title=_title(report), title_justify="left")
    for key in report.keys:
        table.add_column(_heading(key), overflow="fold")
    for name in columns:
        widest = max(len(_cells(row)[name]) for _, row in (*rows, *ends))
        # Numbers are never cut; names break over lines instead.
        table.add_column(name, justify="right", min_width=max(widest, len(name)), no_wrap=True)
    for labels, row in rows:
        table.add_row(*labels, *(_cells(row)[name] for name in columns))
    table.add_section()
    for labels, row in ends:
        table.add_row(*labels, *(_cells(row)[name] for name in columns))
    return table


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
        "total": _numbers(_together(report.rows)),
        "idle": None if report.idle == NO_USAGE else _idle_numbers(report),
    }


def _idle_numbers(report: CostReport) -> dict[str, Any]:
    numbers = _numbers(_idle_row(report))
    return {name: numbers[name] for name in ("gpu_hours", "cost_micro_usd", "cost_usd")}


def report_csv(report: CostReport) -> str:
    """The rows, with a head."""
    out = io.StringIO()
    rows = report_document(report)["rows"]
    writer = csv.DictWriter(out, [*report.keys, *_numbers(_together([]))], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _title(report: CostReport) -> str:
    start, end = report.window.start, report.window.end
    return f"Cost from {start:%Y-%m-%d} up to {end:%Y-%m-%d}, UTC"


def _label(keys: Keys, text: str) -> tuple[str, ...]:
    return (text, *("" for _ in keys[1:]))


def _together(rows: Sequence[CostRow]) -> CostRow:
    return CostRow(
        keys=(),
        runs=sum(row.runs for row in rows),
        attempts=sum(row.attempts for row in rows),
        usage=sum_usage(row.usage for row in rows),
        micro_usd=sum(row.micro_usd for row in rows),
        idle=sum_usage(row.idle for row in rows),
        idle_micro_usd=sum(row.idle_micro_usd for row in rows),
    )


def _idle_row(report: CostReport) -> CostRow:
    return CostRow(keys=(), runs=0, attempts=0, usage=report.idle, micro_usd=report.idle_micro_usd)


def _cells(row: CostRow) -> dict[str, str]:
    usage = row.usage
    return {
        "Runs": f"{row.runs:,}",
        "Attempts": f"{row.attempts:,}",
        "GPU-hours": f"{usage.gpu_hours:,.2f}",
        "Core-hours": f"{usage.cpu_hours:,.2f}",
        "GiB-hours": f"{usage.gib_hours:,.2f}",
        "Cost": _cost(row.usage, row.micro_usd),
        "Idle": _cost(row.idle, row.idle_micro_usd),
    }


def _cost(usage: Usage, micro_usd: int) -> str:
    if not usage.is_unpriced:
        return format_usd(micro_usd)
    if not usage.exact_micro_usd:
        return "unpriced"
    return f"{format_usd(micro_usd)} + unpriced"


def _numbers(row: CostRow) -> dict[str, Any]:
    return {"runs": row.runs, "attempts": row.attempts} | _usage_numbers(row.usage) | {
        "cost_micro_usd": None if _is_unknown(row.usage) else row.micro_usd,
        "cost_usd": None if _is_unknown(row.usage) else row.micro_usd / MICRO_USD_PER_USD,
        "idle_micro_usd": None if _is_unknown(row.idle) else row.idle_micro_usd,
    }  # fmt: skip


def _is_unknown(usage: Usage) -> bool:
    return usage.is_unpriced and not usage.exact_micro_usd


def _usage_numbers(usage: Usage) -> dict[str, Any]:
    return {
        "gpu_hours": usage.gpu_hours,
        "cpu_core_hours": usage.cpu_hours,
        "memory_gib_hours": usage.gib_hours,
        "unpriced_gpu_hours": usage.unpriced_gpu_s / SECONDS_PER_HOUR,
        "unpriced_cpu_only_hours": float(usage.unpriced_us) / 1e6 / SECONDS_PER_HOUR,
        "cost_micro_usd": None if _is_unknown(usage) else usage.micro_usd,
        "cost_usd": None if _is_unknown(usage) else usage.micro_usd / MICRO_USD_PER_USD,
    }
