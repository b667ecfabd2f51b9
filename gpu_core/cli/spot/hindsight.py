"""`prefect-gpu spot-replay --ledger`: the lowest possible cost of finished runs."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rich.table import Table

from gpu_core.adapters.traces.ledger import read_records
from gpu_core.cli.shared.tables import print_table
from gpu_core.decisions.model.attempts import Attempt, RunRecord
from gpu_core.decisions.model.cluster import SPOT
from gpu_core.decisions.model.units import MICRO_USD_PER_USD, format_duration, format_usd
from gpu_core.decisions.model.work_done import work_s
from gpu_core.decisions.simulation.spot.hindsight import (
    Hindsight,
    NoHindsight,
    hindsight,
    mean_price_micro_usd,
    on_demand_prices,
)
from gpu_core.decisions.simulation.spot.recorded_availability import spot_spans

_MOST_ROWS = 50

Records = Sequence[tuple[RunRecord, Sequence[Attempt]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotHindsight:
    """All runs of a ledger that something can be said about, and how many cannot, by reason."""

    runs: tuple[Hindsight, ...]
    left_out: Counter[NoHindsight]

    @property
    def paid_micro_usd(self) -> int:
        """The cost of these runs' GPUs."""
        return sum(run.paid_micro_usd for run in self.runs)

    @property
    def best_micro_usd(self) -> int:
        """The cost of the best possible strategy."""
        return sum(run.best_micro_usd for run in self.runs)


def run_spot_hindsight(ledger: str, price_ratio: float | None, *, as_json: bool) -> int:
    """Print a table or JSON. Returns the exit code.

    Args:
        price_ratio: On-demand by spot price, for GPU types that the ledger has no on-demand price
            of; None: runs on those are left out.

    Raises:
        InvalidInput: There is no such ledger.
        LedgerError: It cannot be read.
    """
    found = spot_hindsight(read_records(ledger), price_ratio, datetime.now(UTC))
    if as_json:
        print(json.dumps(_document(found), indent=2))
    else:
        print_table(_table(found))
    return 0


def spot_hindsight(records: Records, price_ratio: float | None, now: datetime) -> SpotHindsight:
    """The lowest possible cost of each of these runs, in hindsight."""
    everything = [attempt for _, attempts in records for attempt in attempts]
    spans = spot_spans(everything, now)
    prices = _prices(everything, price_ratio)
    runs, left_out = [], Counter[NoHindsight]()
    for run, attempts in records:
        price = prices.get(attempts[0].gpu_type or "")
        found = hindsight(run, attempts, work_s(attempts), spans, price)
        if isinstance(found, Hindsight):
            runs.append(found)
        else:
            left_out[found] += 1
    return SpotHindsight(runs=tuple(runs), left_out=left_out)


def _prices(attempts: Sequence[Attempt], price_ratio: float | None) -> dict[str, int]:
    if price_ratio is None:
        return on_demand_prices(attempts)
    on_spot = [a for a in attempts if a.capacity_type == SPOT and a.gpu_type is not None]
    guessed = {}
    for gpu_type in {attempt.gpu_type or "" for attempt in on_spot}:
        mean = mean_price_micro_usd([a for a in on_spot if a.gpu_type == gpu_type])
        if mean is not None:
            guessed[gpu_type] = round(mean * price_ratio)
    return guessed | on_demand_prices(attempts)


def _table(found: SpotHindsight) -> Table:
    left_out = [f"{count} excluded: {reason}" for reason, count in found.left_out.items()]
    table = Table(
        title="Completed spot runs compared with the lowest possible cost",
        caption="; ".join(left_out),
    )
    table.add_column("Run")
    for header in ("GPUs", "Work", "Took", "Paid", "Best possible", "By the best"):
        table.add_column(header, justify="right")
    dearest = sorted(found.runs, key=_regret, reverse=True)
    for run in dearest[:_MOST_ROWS]:
        table.add_row(
            run.run.name,
            f"{run.gpus} × {run.gpu_type}",
            format_duration(run.work_s),
            format_duration(run.took_s),
            format_usd(run.paid_micro_usd),
            format_usd(run.best_micro_usd),
            f"{run.by_best:.2f}",
        )
    more = len(dearest) - _MOST_ROWS
    if more > 0:
        table.add_row(f"and {more} more", *[""] * 6)
    if found.runs:
        table.add_section()
        by_best = f"{found.paid_micro_usd / found.best_micro_usd:.2f}"
        paid, best = format_usd(found.paid_micro_usd), format_usd(found.best_micro_usd)
        table.add_row("all", "", "", "", paid, best, by_best)
    return table


def _regret(run: Hindsight) -> tuple[int, str]:
    return (run.paid_micro_usd - run.best_micro_usd, run.run.flow_run_id)


def _document(found: SpotHindsight) -> dict[str, Any]:
    return {
        "paid_usd": found.paid_micro_usd / MICRO_USD_PER_USD,
        "best_usd": found.best_micro_usd / MICRO_USD_PER_USD,
        "left_out": {reason.name: count for reason, count in found.left_out.items()},
        "runs": [
            {
                "flow_run_id": run.run.flow_run_id,
                "name": run.run.name,
                "gpus": run.gpus,
                "gpu_type": run.gpu_type,
                "work_s": run.work_s,
                "took_s": run.took_s,
                "paid_usd": run.paid_micro_usd / MICRO_USD_PER_USD,
                "best_usd": run.best_micro_usd / MICRO_USD_PER_USD,
                "by_best": run.by_best,
            }
            for run in found.runs
        ],
    }
