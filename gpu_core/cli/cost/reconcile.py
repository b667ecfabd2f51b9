"""`prefect-gpu cost reconcile`: a provider's bill against the capacity in the ledger."""

import csv
import io
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from rich.table import Table

from gpu_core.adapters.files.text_file import read_text_file
from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.source import open_to_read
from gpu_core.cli.cost.reconciled_runs import (
    ReconciledRun,
    print_runs,
    reconciled_runs,
    run_documents,
)
from gpu_core.cli.shared.tables import print_table
from gpu_core.cli.shared.terminal import print_notice
from gpu_core.decisions.costs.billing.bill_lines import LineProblem, parse_bill
from gpu_core.decisions.costs.billing.reconciliation import (
    MachineBill,
    Reconciliation,
    reconcile,
    window_of,
)
from gpu_core.decisions.costs.billing.run_bills import AttemptBill, attempt_bills, bills_around
from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityInterval
from gpu_core.decisions.costs.usage.usage import apportioned, round_half_up
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.attempts import Provenance
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import count, format_usd

_NAMED_LINES = 10

Rows = Iterable[Mapping[str, str | None]]


def run_reconcile(
    path: Path, ledger_url: Callable[[], str], *, limit: int, dry_run: bool, as_json: bool
) -> int:
    """Print where each dollar of the bill belongs, and mark the runs that it is for.

    Raises:
        InvalidInput: The file is not a valid FOCUS bill, or the ledger's address cannot be used.
        LedgerError: The ledger cannot be read, or written.
    """
    lines, problems = parse_bill(*_read(path))
    window, now = window_of(lines), datetime.now(UTC)
    with open_to_read(ledger_url()) as ledger:
        found = () if window is None else ledger.capacity(window.start, window.end)
        reconciled = reconcile(lines, problems, found, now)
        runs = () if window is None else _reconciled_runs(ledger, reconciled, found, window, now)
        if window is not None and not dry_run:
            # A bill may come in several files: one says nothing of the machines of another.
            machines = [each.instance for each in reconciled.machines if each.is_billed]
            parts = [part for run in runs for part in run.parts]
            around = _bills_around(ledger, machines, window, now)
            ledger.note_bills(machines, window, [*parts, *around], now)
    if as_json:
        print(json.dumps(_document(reconciled) | {"runs": run_documents(runs)}, indent=2))
    else:
        _print(reconciled, limit)
        print_runs(runs, limit, dry_run=dry_run)
    _name(reconciled.problems)
    return 0


def _reconciled_runs(
    ledger: Ledger,
    reconciled: Reconciliation,
    intervals: Sequence[CapacityInterval],
    window: Window,
    now: datetime,
) -> tuple[ReconciledRun, ...]:
    records = ledger.usage(window.start, window.end, provenance=Provenance.MEASURED)
    return reconciled_runs(records, attempt_bills(reconciled, intervals, records, now))


def _bills_around(
    ledger: Ledger, machines: Sequence[str], window: Window, now: datetime
) -> Sequence[AttemptBill]:
    """The bills of these machines by earlier bills, for the time before and after this bill's."""
    earlier = [
        bill
        for bill in ledger.bills_in(machines, window)
        if bill.bill_start < window.start or bill.bill_end > window.end
    ]
    if not earlier:
        return ()
    start = min(bill.bill_start for bill in earlier)
    end = max(bill.bill_end for bill in earlier)
    records = ledger.usage(start, end, provenance=Provenance.MEASURED)
    return bills_around(window, earlier, ledger.capacity(start, end), records, now)


def _read(path: Path) -> tuple[Sequence[str], Rows]:
    if path.suffix.lower() == ".parquet":
        return _read_parquet(path)
    reader = csv.DictReader(io.StringIO(read_text_file(path, "bill"), newline=""))
    try:
        return list(reader.fieldnames or ()), list(reader)
    except csv.Error as error:
        place = f"{path}:{reader.line_num}"
        raise InvalidInput(place, "cannot be read as CSV", got=str(error)) from None


def _read_parquet(path: Path) -> tuple[Sequence[str], Rows]:
    import pyarrow as pa  # a second to import, and only Parquet needs it
    from pyarrow import parquet

    try:
        table = parquet.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise InvalidInput(str(path), "cannot be read", got=str(error)) from None
    rows = ({name: _text(value) for name, value in row.items()} for row in table.to_pylist())
    return table.column_names, rows


def _text(value: Any) -> str | None:
    if isinstance(value, datetime):
        # FOCUS has moments in UTC; Parquet may leave the zone out.
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    return None if value is None else str(value)


def _print(reconciled: Reconciliation, limit: int) -> None:
    print_table(_steps_table(reconciled))
    if reconciled.machines:
        print_table(_machines_table(reconciled.machines[:limit], len(reconciled.machines)))


def _steps_table(reconciled: Reconciliation) -> Table:
    table = Table(title=_title(reconciled))
    table.add_column("Differences between ledger and bill", overflow="fold")
    table.add_column("USD", justify="right", no_wrap=True)
    exact = [reconciled.ledger_micro_usd, *reconciled.steps.values()]
    ledger, *steps = apportioned(exact)
    table.add_row("Ledger: machines with a provider ID", format_usd(ledger))
    for step, micro_usd in zip(reconciled.steps, steps, strict=True):
        table.add_row(step.value, _signed(micro_usd))
    table.add_section()
    table.add_row("The bill", format_usd(round_half_up(reconciled.billed_micro_usd)))
    return table


def _machines_table(machines: Sequence[MachineBill], of: int) -> Table:
    title = "Matched machines" if of == len(machines) else f"{len(machines)} of {of:,} machines"
    table = Table(title=f"{title} (largest differences first)")
    table.add_column("Machine", overflow="fold")
    table.add_column("Node", overflow="fold")
    for name in ("Hours", "Billed", "Ledger", "Bill"):
        table.add_column(name, justify="right", no_wrap=True)
    for machine in machines:
        ours = machine.micro_usd
        table.add_row(
            machine.instance,
            ", ".join(machine.nodes),
            f"{float(machine.hours):,.2f}",
            f"{float(machine.billed_hours):,.2f}",
            "unpriced" if ours is None else format_usd(round_half_up(ours)),
            format_usd(round_half_up(machine.billed_micro_usd)),
        )
    return table


def _title(reconciled: Reconciliation) -> str:
    if reconciled.window is None:
        return "No machines found in the bill"
    window = reconciled.window
    return f"Bill from {window.start:%Y-%m-%d %H:%M} up to {window.end:%Y-%m-%d %H:%M}, UTC"


def _signed(micro_usd: int) -> str:
    sign = "-" if micro_usd < 0 else "+"
    return f"{sign}{format_usd(abs(micro_usd))}"


def _document(reconciled: Reconciliation) -> dict[str, Any]:
    """For machines: whole micro-USD that add up."""
    exact = [reconciled.ledger_micro_usd, *reconciled.steps.values()]
    ledger, *steps = apportioned(exact)
    window = reconciled.window
    return {
        "start": None if window is None else window.start.isoformat(),
        "end": None if window is None else window.end.isoformat(),
        "ledger_micro_usd": ledger,
        "steps": [
            {"step": step.name.lower(), "micro_usd": micro_usd}
            for step, micro_usd in zip(reconciled.steps, steps, strict=True)
        ],
        "billed_micro_usd": round_half_up(reconciled.billed_micro_usd),
        "machines": [_machine(machine) for machine in reconciled.machines],
        "lines": [
            {"line": number, "step": None if step is None else step.name.lower()}
            for number, step in reconciled.lines.items()
        ],
        "problems": [
            {
                "line": each.number,
                "problem": each.problem.name.lower(),
                "detail": each.detail,
                "billed": None if each.billed is None else float(each.billed),
                "currency": each.currency,
            }
            for each in reconciled.problems
        ],
    }


def _machine(machine: MachineBill) -> dict[str, Any]:
    ours = machine.micro_usd
    return {
        "instance": machine.instance,
        "nodes": list(machine.nodes),
        "hours": float(machine.hours),
        "billed_hours": float(machine.billed_hours),
        "ledger_micro_usd": None if ours is None else round_half_up(ours),
        "billed_micro_usd": round_half_up(machine.billed_micro_usd),
        "effective_micro_usd": round_half_up(machine.effective_micro_usd),
    }


def _name(problems: Sequence[LineProblem]) -> None:
    """Say which lines are in no sum."""
    for each in problems[:_NAMED_LINES]:
        detail = f" ({each.detail})" if each.detail else ""
        print_notice(f"Skipped line {each.number}, because it {each.problem.value}{detail}")
    rest = Counter(each.problem for each in problems[_NAMED_LINES:])
    for problem, number in rest.items():
        what = problem.value
        print_notice(f"and {count(number, 'more line')}: each {what}")
    if problems:
        print_notice(f"Skipped lines: {', '.join(_not_counted(problems))}")


def _not_counted(problems: Sequence[LineProblem]) -> list[str]:
    """The sum of these lines, by currency."""
    sums: dict[str, Fraction] = defaultdict(Fraction)
    for each in problems:
        if each.billed is not None:
            sums[each.currency or "without a currency"] += each.billed
    unknown = sum(each.billed is None for each in problems)
    amounts = [f"{float(amount):,.2f} {currency}" for currency, amount in sorted(sums.items())]
    return [*amounts, *([f"{count(unknown, 'line')} with an unknown amount"] if unknown else [])]
