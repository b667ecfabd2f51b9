"""The command `prefect-gpu gpus history`: reads the ledger and prints."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from gpu_core.adapters.ledger.source import open_to_read
from gpu_core.decisions.telemetry.history import GpuWindow
from gpu_core.decisions.telemetry.use_text import format_energy, format_ratio

_COLUMNS = ("Minute (UTC)", "Mean", "95%", "SM", "Memory", "Hottest", "Energy", "GPU")
_UNKNOWN = "–"


def show_history(ledger_url: str, gpu_ids: Sequence[str], last_s: int, *, as_json: bool) -> int:
    """Print the windows of the last minutes, the oldest first.

    Raises:
        InvalidInput: The ledger's address cannot be used.
        LedgerError: The ledger cannot be read.
    """
    now = datetime.now(UTC)
    with open_to_read(ledger_url) as ledger:
        found = ledger.gpu_windows(now - timedelta(seconds=last_s), now, list(gpu_ids) or None)
    if as_json:
        rows = [{"minute": each.minute.isoformat(), **asdict(each.summary)} for each in found]
        print(json.dumps(rows, indent=2))
    elif not found:
        print(
            "No GPU activity found. You can set the retention period with "
            "`telemetry.history_days` in the policy."
        )
    else:
        print("\n".join(_lines(found)))
    return 0


def _lines(windows: Sequence[GpuWindow]) -> list[str]:
    rows = [_COLUMNS, *(_cells(window) for window in windows)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(_COLUMNS))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _cells(window: GpuWindow) -> tuple[str, ...]:
    of = window.summary
    memory, hottest_c = of.memory_used_max_bytes, of.temperature_max_c
    return (
        f"{window.minute:%Y-%m-%d %H:%M}",
        format_ratio(of.utilization_mean_ratio),
        format_ratio(of.utilization_p95_ratio),
        format_ratio(of.sm_active_mean_ratio),
        _UNKNOWN if memory is None else f"{memory / 2**30:.1f} GiB",
        _UNKNOWN if hottest_c is None else f"{hottest_c:.0f} °C",
        format_energy(of.energy_j),
        of.gpu_id,
    )
