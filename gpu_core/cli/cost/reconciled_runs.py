"""Runs of a provider's bill: each with what it was charged and what that is billed."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from gpu_core.cli.shared.tables import print_table
from gpu_core.cli.shared.terminal import wrapped
from gpu_core.decisions.costs.billing.run_bills import AttemptBill, RunBill, run_bills
from gpu_core.decisions.model.attempts import Attempt, RunRecord
from gpu_core.decisions.model.units import count, format_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciledRun:
    """A run, and what one bill says of it."""

    run: RunRecord
    parts: tuple[AttemptBill, ...]
    bill: RunBill


def reconciled_runs(
    records: Iterable[tuple[RunRecord, Sequence[Attempt]]], parts: Iterable[AttemptBill]
) -> tuple[ReconciledRun, ...]:
    """The runs that the bill is for, the one that was charged the most first."""
    by_run: dict[str, list[AttemptBill]] = defaultdict(list)
    for part in parts:
        by_run[part.flow_run_id].append(part)
    runs = {run.flow_run_id: run for run, _ in records}
    found = [
        ReconciledRun(run=runs[flow_run_id], parts=tuple(by_run[flow_run_id]), bill=bill)
        for flow_run_id, bill in run_bills(p for of_run in by_run.values() for p in of_run).items()
    ]
    return tuple(sorted(found, key=lambda r: (-r.bill.charged_micro_usd, r.run.flow_run_id)))


def print_runs(runs: Sequence[ReconciledRun], limit: int, *, dry_run: bool) -> None:
    """Print the most expensive runs, and what all of them were charged and are billed."""
    if not runs:
        return
    title = "Runs" if len(runs) <= limit else f"{limit} of {len(runs):,} runs"
    table = Table(title=f"{title} (most expensive first)")
    table.add_column("Run", overflow="fold")
    table.add_column("Team", overflow="fold")
    for name in ("Charged", "Billed"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in runs[:limit]:
        amounts = (each.bill.charged_micro_usd, each.bill.billed_micro_usd)
        table.add_row(each.run.name, each.run.team or "(none)", *map(format_usd, amounts))
    print_table(table)
    charged = sum(each.bill.charged_micro_usd for each in runs)
    billed = sum(each.bill.billed_micro_usd for each in runs)
    done = "would be marked" if dry_run else "marked"
    text = (
        f"{count(len(runs), 'run')} {done} as reconciled: charged {format_usd(charged)}, "
        f"billed {format_usd(billed)}"
    )
    print(wrapped(text))


def run_documents(runs: Iterable[ReconciledRun]) -> list[dict[str, Any]]:
    """The runs for machines."""
    return [
        {
            "flow_run_id": each.run.flow_run_id,
            "name": each.run.name,
            "charged_micro_usd": each.bill.charged_micro_usd,
            "billed_micro_usd": each.bill.billed_micro_usd,
        }
        for each in runs
    ]
