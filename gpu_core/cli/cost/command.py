"""`prefect-gpu cost report` and `export`: read the ledger, decide, print."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime
from enum import StrEnum
from pathlib import Path

from gpu_core.adapters.ledger.cost_slices import CostQuestion
from gpu_core.adapters.ledger.policy_in_force import (
    PolicyInForce,
    policy_in_file,
    policy_in_force,
)
from gpu_core.adapters.ledger.source import open_to_read
from gpu_core.adapters.ledger.store import Ledger
from gpu_core.cli.cost.files import check_output, write_rows
from gpu_core.cli.cost.garbage_collection import without_garbage_collection
from gpu_core.cli.cost.kept_rows import RowsOnDisk
from gpu_core.cli.cost.table import Show, report_csv, report_document, report_table
from gpu_core.cli.cost.unknown_pool import name_unknown_pool
from gpu_core.cli.shared.tables import print_table
from gpu_core.cli.shared.terminal import print_notice, terminal_width
from gpu_core.decisions.costs.billing.charges import Charges
from gpu_core.decisions.costs.billing.focus import COLUMNS, focus_rows, parse_focus_version
from gpu_core.decisions.costs.capacity.idle import IdleRule, parse_idle_rule, with_idle
from gpu_core.decisions.costs.capacity.reserved_idle import (
    Reservation,
    reserved_times,
    with_reserved_idle,
)
from gpu_core.decisions.costs.reports.cost_report import (
    CostReport,
    cost_report,
    parse_keys,
    period_window,
    with_bills,
)
from gpu_core.decisions.costs.usage.usage import US_PER_HOUR
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.attempts import Provenance
from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name
from gpu_core.decisions.scheduling.reservations.calendar import windows_between


class ReportFormat(StrEnum):
    """The format of a printed report."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


@without_garbage_collection()
def run_report(
    ledger_url: Callable[[], str],
    period: str,
    day: date,
    by: Sequence[str],
    *,
    pool: str | None,
    with_generated: bool,
    idle: str,
    limit: int,
    output: ReportFormat,
    show: str,
    policy_file: Path | None = None,
) -> int:
    """Print what a period cost. The ledger is opened after all other options are checked.

    Raises:
        InvalidInput: The period, a key, the idle rule or the ledger's address cannot be used.
        LedgerError: The ledger cannot be read.
    """
    window, keys = period_window(period, day), parse_keys(by)
    rule, shown = parse_idle_rule(idle), _show(show)
    given = policy_in_file(policy_file)
    asked = CostQuestion(
        window=window,
        keys=keys,
        now=datetime.now(UTC),
        pool=pool,
        provenance=None if with_generated else Provenance.MEASURED,
    )
    with open_to_read(ledger_url()) as ledger:
        slices, runs = ledger.cost_slices(asked)
        report = cost_report(window, keys, slices, runs)
        report = _with_idle(report, rule, ledger, asked, given)
        report = with_bills(report, ledger.bill_sums(asked))
        name_unknown_pool(ledger, pool, "report")
    if output is ReportFormat.JSON:
        print(json.dumps(report_document(report), indent=2))
    elif output is ReportFormat.CSV:
        print(report_csv(report), end="")
    else:
        print_table(report_table(report, limit, shown, terminal_width()))
    return 0


def _with_idle(
    report: CostReport,
    rule: IdleRule,
    ledger: Ledger,
    asked: CostQuestion,
    given: PolicyInForce | None,
) -> CostReport:
    if rule is not IdleRule.RESERVATION:
        capacity = ledger.capacity_cost(asked)
        shown = with_idle(report, capacity.idle, rule, capacity.faults)
        return replace(shown, beyond_micro_usd=capacity.beyond_micro_usd)
    in_force = policy_in_force(given, ledger, asked.pool, min(asked.now, asked.window.end))
    reservations = _reservations(in_force, asked.window)
    times = reserved_times(reservations, asked.window, asked.now)
    costs = [(time, ledger.capacity_cost(replace(asked, window=time.window))) for time in times]
    return with_reserved_idle(report, costs)


def _reservations(in_force: PolicyInForce, window: Window) -> Iterator[Reservation]:
    """The advance reservations of whole nodes in the policy."""
    calendar = in_force.policy.calendar
    if not any(closure.for_team and closure.nodes for closure in calendar.closures):
        raise InvalidInput(
            "policy", "does not contain any team reservations, which are required for --idle "
                "reservation",
            got=in_force.origin, remedy="please specify a different policy with --policy",
        )  # fmt: skip
    for closure in windows_between(calendar, window.start, window.end):
        if closure.for_team is not None and closure.nodes:
            yield Reservation(
                name=closure.name,
                team=closure.for_team,
                nodes=closure.nodes,
                window=Window(closure.starts_at, closure.ends_at),
            )


def _show(text: str) -> Show:
    names = tuple(show.value for show in Show)
    if text not in names:
        raise InvalidInput(
            "show",
            "is not a valid view",
            got=text,
            allowed=listed(names),
            nearest=nearest_name(text, names),
        )
    return Show(text)


def run_export(
    ledger_url: Callable[[], str],
    period: str,
    day: date,
    *,
    pool: str | None,
    with_generated: bool,
    path: Path | None,
    focus: str,
) -> int:
    """Write the bill of a period as a FOCUS file.

    Raises:
        InvalidInput: The period, the version, the file's name or the ledger's address
            cannot be used.
        LedgerError: The ledger cannot be read.
        OSError: The file cannot be written.
    """
    window, version = period_window(period, day), parse_focus_version(focus)
    check_output(path)
    provenance = None if with_generated else Provenance.MEASURED
    with (
        open_to_read(ledger_url()) as ledger,
        # A pool's reserved machines are used up by the runs of all pools.
        ledger.usage_in_pages(window.start, window.end, provenance=provenance) as records,
        closing(RowsOnDisk()) as kept,
    ):
        machines = ledger.capacity(window.start, window.end)
        of_pool = [machine for machine in machines if pool in (None, machine.pool)]
        charges = Charges(records, window, datetime.now(UTC), of_pool, pool)
        write_rows(path, COLUMNS[version], focus_rows(charges, kept))
        name_unknown_pool(ledger, pool, "export")
    _name_unpriced(charges)
    return 0


def _name_unpriced(charges: Charges) -> None:
    """Say what is not in the file: an unknown price is no amount that a bill could have."""
    missing = []
    if charges.unpriced_gpu_us:
        missing.append(f"{float(charges.unpriced_gpu_us / US_PER_HOUR):,.2f} GPU-hours")
    if charges.unpriced_us:
        missing.append(
            f"{float(charges.unpriced_us / US_PER_HOUR):,.2f} hours of runs without GPUs"
        )
    if missing:
        print_notice(
            f"prefect-gpu cost export: {' and '.join(missing)} without a known price were "
            "excluded. You can specify prices in `rates` or `prices` of the policy"
        )
