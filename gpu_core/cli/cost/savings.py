"""`prefect-gpu cost savings`: what spot, elasticity and commitments saved in a month, and could."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from rich.console import JustifyMethod
from rich.table import Table

from gpu_core.adapters.files.catalog_file import load_sheet
from gpu_core.adapters.ledger.policy_in_force import policy_in_file, policy_in_force
from gpu_core.adapters.ledger.savings import SavingsQuestion, read_savings
from gpu_core.adapters.ledger.source import open_to_read
from gpu_core.cli.cost.garbage_collection import without_garbage_collection
from gpu_core.cli.cost.unknown_pool import name_unknown_pool
from gpu_core.cli.shared.options import require_countable
from gpu_core.cli.shared.tables import print_table
from gpu_core.cli.shared.terminal import print_notice, wrapped
from gpu_core.decisions.catalog.offerings import Catalog
from gpu_core.decisions.costs.reports.cost_report import period_window
from gpu_core.decisions.costs.savings.gpu_type_choice import CheaperType
from gpu_core.decisions.costs.savings.month_savings import Commitment, FixedCluster, MonthSavings
from gpu_core.decisions.costs.savings.price_steps import MachineKind
from gpu_core.decisions.costs.savings.tables import SavingsTable, savings_notes, savings_tables
from gpu_core.decisions.costs.usage.usage import US_PER_HOUR
from gpu_core.decisions.model.attempts import Provenance
from gpu_core.decisions.model.errors import InvalidInput


@without_garbage_collection()
def run_savings(
    ledger_url: Callable[[], str],
    month: str | None,
    *,
    pool: str | None,
    with_generated: bool,
    policy_file: Path | None,
    prices_file: Path | None,
    committed_percent: str | None,
    as_json: bool,
) -> int:
    """Print what was saved. The ledger is opened after all other options are checked.

    Raises:
        InvalidInput: The month, a file, the percentage or the ledger's address cannot be used.
        LedgerError: The ledger cannot be read.
    """
    window = period_window("month", _first_day(month))
    given = policy_in_file(policy_file)
    ratio = _ratio(committed_percent)
    sheet = Catalog() if prices_file is None else load_sheet(prices_file)
    now = datetime.now(UTC)
    with open_to_read(ledger_url()) as ledger:
        in_force = policy_in_force(given, ledger, pool, min(now, window.end))
        asked = SavingsQuestion(
            month=window,
            now=now,
            policy=in_force.policy,
            pool=pool,
            provenance=None if with_generated else Provenance.MEASURED,
            sheet=sheet,
            committed_ratio=ratio,
        )
        found = read_savings(ledger, asked)
        name_unknown_pool(ledger, pool, "savings")
    if as_json:
        print(json.dumps(_document(found), indent=2))
        return 0
    _print(found)
    return 0


def _first_day(month: str | None) -> date:
    if month is None:
        return datetime.now(UTC).date().replace(day=1)
    try:
        first = datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC).date()
    except ValueError:
        raise InvalidInput(
            "month", "is not a month", got=month, allowed="a month such as 2026-10"
        ) from None
    return require_countable(first, "month", month)


def _ratio(percent: str | None) -> Fraction | None:
    if percent is None:
        return None
    try:
        ratio = Fraction(percent.removesuffix("%").strip()) / 100
    except (ValueError, ZeroDivisionError):
        ratio = Fraction(-1)
    if not 0 <= ratio <= 1:
        raise InvalidInput(
            "committed-percent", "is not a percentage", got=percent, allowed="0 to 100"
        )
    return ratio


def _print(found: MonthSavings) -> None:
    window = found.window
    if not window.end > window.start:
        text = (
            "No machines found in the ledger for this month. Machines are recorded by workers "
            "when they are added or removed."
        )
        print(wrapped(text))
        return
    start, end = window.start, window.end
    print(wrapped(f"Savings from {start:%Y-%m-%d %H:%M} up to {end:%Y-%m-%d %H:%M}, UTC"))
    tables = savings_tables(found)
    for table in tables:
        print_table(_table(table))
    if not tables:
        print(wrapped("No machines with known prices found in the ledger for this period."))
    for note in savings_notes(found):
        print_notice(f"prefect-gpu cost savings: {note}")


def _table(table: SavingsTable) -> Table:
    printed = Table(title=table.title)
    for place, heading in enumerate(table.head):
        # Numbers are never cut; names break over lines instead.
        justify: JustifyMethod = "right" if place else "left"
        printed.add_column(heading, justify=justify, overflow="fold", no_wrap=bool(place))
    for row in table.rows:
        printed.add_row(*row)
    return printed


def _document(found: MonthSavings) -> dict[str, Any]:
    """For machines: whole micro-USD that add up, and null where a price is unknown."""
    return {
        "start": found.window.start.isoformat(),
        "end": found.window.end.isoformat(),
        "cost_micro_usd": found.micro_usd,
        "on_demand_micro_usd": found.on_demand_micro_usd,
        "lowest_possible_micro_usd": found.best_micro_usd,
        "spot": _spot(found),
        "fixed_clusters": [
            *map(_cluster, found.clusters),
            *({"cluster": each.value, "cost_micro_usd": None} for each in found.unknown_clusters),
        ],
        "commitments": [_commitment(each) for each in found.commitments],
        "cheaper_gpu_types": [_cheaper(each) for each in found.cheaper_types],
        "unpriced": [_kind(kind) | {"gpu_hours": hours} for kind, hours in found.unpriced],
    }


def _spot(found: MonthSavings) -> dict[str, Any] | None:
    spot = found.spot
    if spot is None:
        return None
    return {
        "gpu_hours": spot.gpu_us / US_PER_HOUR,
        "saved_micro_usd": spot.micro_usd,
        "interruptions_micro_usd": spot.interruptions_micro_usd,
        "net_micro_usd": spot.net_micro_usd,
    }


def _cluster(each: FixedCluster) -> dict[str, Any]:
    return {
        "cluster": each.cluster.value,
        "gpus": each.gpus,
        "cost_micro_usd": each.micro_usd,
        "elasticity_micro_usd": each.elasticity_micro_usd,
        "spot_micro_usd": each.spot_micro_usd,
        "reserved_micro_usd": each.reserved_micro_usd,
        "commitment_micro_usd": each.commitment_micro_usd,
    }


def _commitment(each: Commitment) -> dict[str, Any]:
    return _kind(each.kind) | {
        "held_ratios": list(each.held_ratios),
        "price_ratio": each.price_ratio,
        "machines": each.machines,
        "saved_micro_usd": each.micro_usd,
    }


def _cheaper(each: CheaperType) -> dict[str, Any]:
    return {
        "deployment": each.deployment,
        "gpu_type": each.gpu_type,
        "runs": each.runs,
        "cheaper_gpu_type": each.cheaper,
        "is_measured": each.is_measured,
        "projected_micro_usd": each.micro_usd,
        "pays_below_times_as_long": each.pays_below,
    }


def _kind(kind: MachineKind) -> dict[str, Any]:
    return kind._asdict()
