"""`prefect-gpu optimize` and `optimize show`: read the ledger, decide, print."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from gpu_core.adapters.files.catalog_file import load_catalog
from gpu_core.adapters.ledger.optimization import read_optimization
from gpu_core.adapters.ledger.policy_in_force import policy_in_file, policy_in_force
from gpu_core.adapters.ledger.source import open_to_read
from gpu_core.cli.shared.options import parse_day
from gpu_core.cli.shared.tables import print_table
from gpu_core.cli.shared.terminal import wrapped
from gpu_core.decisions.catalog import DEFAULT_CATALOG
from gpu_core.decisions.catalog.offerings import combined
from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name
from gpu_core.decisions.model.units import format_usd
from gpu_core.decisions.optimization.proposals.analysis import Analysis
from gpu_core.decisions.optimization.proposals.markdown import (
    change_text,
    percent_range,
    report_lines,
)
from gpu_core.decisions.optimization.proposals.period import Period
from gpu_core.decisions.optimization.proposals.proposal import Proposal, to_document
from gpu_core.decisions.optimization.proposals.propose import Optimization

_MOST_ROWS = 10


def run_optimize(
    ledger_url: Callable[[], str],
    day: str | None,
    policy: Path | None,
    *,
    pool: str | None,
    with_generated: bool,
    as_json: bool,
) -> int:
    """Print where money went and what would save some.

    Raises:
        InvalidInput: The day, the policy or the ledger's address cannot be used.
        LedgerError: The ledger cannot be read.
    """
    found = _read(ledger_url, day, policy, pool=pool, with_generated=with_generated)
    if as_json:
        print(json.dumps(_document(found), indent=2))
        return 0
    print_table(_workloads(found.analysis))
    if found.analysis.waste:
        print_table(_waste(found.analysis))
    print_table(_proposals(found.proposals))
    print(wrapped(found.calibration.sentence))
    return 0


def run_show(
    proposal_id: str,
    ledger_url: Callable[[], str],
    day: str | None,
    policy: Path | None,
    *,
    pool: str | None,
    with_generated: bool,
    as_json: bool,
) -> int:
    """Print one proposal.

    Raises:
        InvalidInput: There is no such proposal, or an option cannot be used.
        LedgerError: The ledger cannot be read.
    """
    found = _read(ledger_url, day, policy, pool=pool, with_generated=with_generated)
    proposal = _named(proposal_id, found.proposals)
    if as_json:
        print(json.dumps(to_document(proposal), indent=2))
    else:
        print("\n".join([f"{proposal.proposal_id}: {proposal.deployment}", *_lines(proposal)]))
    return 0


def _read(
    ledger_url: Callable[[], str],
    day: str | None,
    policy: Path | None,
    *,
    pool: str | None,
    with_generated: bool,
) -> Optimization:
    now = datetime.now(UTC)
    period = Period.before(now.date() if day is None else parse_day(day, "day"))
    given = policy_in_file(policy)
    with open_to_read(ledger_url()) as ledger:
        in_force = policy_in_force(given, ledger, pool, min(now, period.window.end))
        catalog = combined((load_catalog(DEFAULT_CATALOG), ledger.catalog()))
        return read_optimization(
            ledger,
            period,
            now,
            policy=in_force.policy,
            catalog=catalog,
            pool=pool,
            with_generated=with_generated,
        )


def _named(proposal_id: str, proposals: Sequence[Proposal]) -> Proposal:
    known = {proposal.proposal_id: proposal for proposal in proposals}
    if proposal_id not in known:
        raise InvalidInput(
            "proposal",
            "was not found in this period",
            got=proposal_id,
            allowed=listed(known) if known else "none, because no change is proposed",
            nearest=nearest_name(proposal_id, known),
            remedy="run `prefect-gpu optimize` to list them",
        )
    return known[proposal_id]


def _lines(proposal: Proposal) -> list[str]:
    return [f"  {line}" for line in report_lines(proposal)]


def _document(found: Optimization) -> dict[str, Any]:
    calibration = found.calibration
    return {
        "first_day": found.period.first.isoformat(),
        "last_day": found.period.last.isoformat(),
        "analysis": asdict(found.analysis),
        "calibration": asdict(calibration) | {"is_close": calibration.is_close},
        "proposals": [to_document(proposal) for proposal in found.proposals],
    }


def _workloads(analysis: Analysis) -> Table:
    title = f"Most expensive deployments (total cost: {format_usd(analysis.cost_micro_usd)})"
    table = Table("Deployment", "Team", title=title)
    for head in ("Runs", "GPU-h", "Cost"):
        table.add_column(head, justify="right")
    for work in analysis.workloads[:_MOST_ROWS]:
        table.add_row(
            work.deployment,
            work.team or "no team",
            f"{work.runs:,}",
            f"{work.gpu_hours:,.1f}",
            format_usd(work.cost_micro_usd),
        )
    return table


def _waste(analysis: Analysis) -> Table:
    table = Table("Kind", title="Wasted cost")
    table.add_column("Cost", justify="right")
    table.add_column("Basis")
    for waste in analysis.waste:
        table.add_row(waste.kind, format_usd(waste.cost_micro_usd), waste.note)
    return table


def _proposals(proposals: Sequence[Proposal]) -> Table:
    title = "Proposals" if proposals else "Proposals: none"
    table = Table(title=title)
    table.add_column("Id", no_wrap=True)
    for head in ("Deployment", "Change"):
        table.add_column(head)
    table.add_column("Saving in 30 days", justify="right")
    table.add_column("80% interval", justify="right")
    for proposal in proposals:
        saving = proposal.saving
        table.add_row(
            proposal.proposal_id,
            proposal.deployment,
            "; ".join(change_text(change) for change in proposal.changes),
            format_usd(saving.micro_usd(saving.expected)),
            percent_range(saving),
        )
    return table
