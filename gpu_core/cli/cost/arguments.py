"""The options of `prefect-gpu cost`."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

from gpu_core.cli.shared.options import AsJson, flag, parse_day, repeated, require_rows
from gpu_core.cli.shared.secret_options import secret, secret_file, secret_option

_LEDGER = Group("Ledger", sort_key=4)


@Parameter(name="*", group=_LEDGER)
@dataclass(frozen=True, kw_only=True)
class LedgerAddress:
    """Options for the ledger to read."""

    ledger: Annotated[
        str | None,
        secret(
            "ledger",
            "The file or URL of the ledger to use. Defaults to the ledger of the work pool",
        ),
    ] = None
    ledger_file: Annotated[str | None, secret_file("ledger")] = None
    pool: Annotated[
        str | None, Parameter(help="The name of the work pool whose ledger should be used.")
    ] = None

    def address(self) -> str:
        """The address of the ledger.

        Raises:
            InvalidInput: It is given twice, or neither given nor known to the Prefect server.
        """
        given = secret_option("ledger", self.ledger, self.ledger_file)
        if given is not None:
            return given
        from gpu_core.cli.shared.prefect_settings import load_prefect

        load_prefect()
        from gpu_core.cli.cost.pool_ledger import ledger_of_pool

        return ledger_of_pool(self.pool)


@Parameter(name="*", group=_LEDGER)
@dataclass(frozen=True, kw_only=True)
class LedgerOptions(LedgerAddress):
    """Options for the ledger to read, and for its runs that count."""

    pool: Annotated[
        str | None,
        Parameter(
            help="Filter by work pool. If not provided, runs from all work pools are included."
        ),
    ] = None
    with_generated: Annotated[bool, flag("Include generated runs in the results.")] = False


DEFAULT_ADDRESS = LedgerAddress()
DEFAULT_OPTIONS = LedgerOptions()
_Period = Annotated[str, Parameter(help="day, week (from Monday) or month, in UTC.")]
_Day = Annotated[
    str | None,
    Parameter(help="A date within the period to report on (e.g. 2026-11-24). Defaults to today."),
]


def report(
    period: _Period = "month",
    /,
    *,
    day: _Day = None,
    by: Annotated[
        tuple[str, ...],
        repeated(
            "Group by run, parent-run, attempt, team, project, user, deployment, experiment, "
            "model, workload-type, gpu-type, capacity-type or zone; up to three. Defaults to team"
        ),
    ] = ("team",),
    idle: Annotated[
        str,
        Parameter(
            help="How idle capacity is charged: none (a line of its own), evenly (each group the "
            "same), by-use (each group in proportion to its cost) or reservation (the team with a "
            "reservation of the node in the calendar)."
        ),
    ] = "none",
    policy: Annotated[
        Path | None,
        Parameter(
            help="The policy with the reservations, for --idle reservation. Defaults to the policy "
            "in force at the time, from the ledger."
        ),
    ] = None,
    options: LedgerOptions = DEFAULT_OPTIONS,
    show: Annotated[
        str,
        Parameter(
            help="The columns to display: usage (GPU-hours), resources (the cost of GPU, CPU and "
            "memory) or time (the cost of useful, lost, restart and queued-on-node time)."
        ),
    ] = "usage",
    limit: Annotated[
        int,
        Parameter(
            help="Limit the number of rows displayed. Remaining rows are summarized in one row."
        ),
    ] = 20,
    as_csv: Annotated[bool, flag("Print CSV.", name="--csv")] = False,
    as_json: AsJson = False,
) -> int:
    """Show the cost of a day, a week or a month.

    Rows and idle capacity add up to the total, to the micro-dollar. What has no price is listed as
    unpriced.
    """
    from gpu_core.cli.cost.command import ReportFormat, run_report
    from gpu_core.decisions.model.errors import InvalidInput

    if as_csv and as_json:
        raise InvalidInput("--csv", "cannot be used with --json", remedy="leave one of them out")
    output = ReportFormat.CSV if as_csv else ReportFormat.JSON if as_json else ReportFormat.TABLE
    return run_report(
        options.address,
        period,
        _day(day),
        by,
        pool=options.pool,
        with_generated=options.with_generated,
        idle=idle,
        limit=require_rows(limit),
        output=output,
        show=show,
        policy_file=policy,
    )


def export(
    period: _Period = "month",
    /,
    *,
    day: _Day = None,
    options: LedgerOptions = DEFAULT_OPTIONS,
    focus: Annotated[str, Parameter(help="The FOCUS version to use. Must be 1.2 or 1.4.")] = "1.2",
    output: Annotated[
        Path | None,
        Parameter(help="Path to the file to write (.csv or .parquet). Defaults to CSV on stdout."),
    ] = None,
) -> int:
    """Write a day, a week or a month as a bill in FOCUS, the FinOps Foundation's format.

    One row for each resource of an attempt at one price in one month. The billed costs add up to
    the report of the same period. What has no price is left out and named on stderr.
    """
    from gpu_core.cli.cost.command import run_export

    return run_export(
        options.address,
        period,
        _day(day),
        pool=options.pool,
        with_generated=options.with_generated,
        path=output,
        focus=focus,
    )


def savings(
    *,
    month: Annotated[
        str | None,
        Parameter(
            help="The month to report on, in UTC (e.g. 2026-10). Defaults to the current month."
        ),
    ] = None,
    policy: Annotated[
        Path | None,
        Parameter(
            help="The policy with the prices, rates and scale.max_gpus. Defaults to the policy "
            "in force at the time, from the ledger."
        ),
    ] = None,
    prices: Annotated[
        Path | None, Parameter(help="Path to a price file to override the catalog with.")
    ] = None,
    committed_percent: Annotated[
        str | None,
        Parameter(
            help="The price of a commitment in percent of the on-demand price. Defaults to the "
            "price "
            "of `reserved` in the policy or the ledger."
        ),
    ] = None,
    options: LedgerOptions = DEFAULT_OPTIONS,
    as_json: AsJson = False,
) -> int:
    """Show what spot, elasticity and commitments saved in a month, and what could be saved.

    Compares the month with three others: the same machine-hours on demand, the lowest possible cost
    in hindsight, and clusters of a fixed size. Parts add up to the micro-dollar. Machines without a
    known price are excluded from all sums, and listed on stderr.
    """
    from gpu_core.cli.cost.savings import run_savings

    return run_savings(
        options.address,
        month,
        pool=options.pool,
        with_generated=options.with_generated,
        policy_file=policy,
        prices_file=prices,
        committed_percent=committed_percent,
        as_json=as_json,
    )


def reconcile(
    file: Annotated[Path, Parameter(help="Path to a bill in FOCUS format (.csv or .parquet).")],
    /,
    *,
    options: LedgerAddress = DEFAULT_ADDRESS,
    limit: Annotated[int, Parameter(help="Maximum number of rows to display per table.")] = 20,
    dry_run: Annotated[bool, flag("If set, do not write any changes to the ledger.")] = False,
    as_json: AsJson = False,
) -> int:
    """Compare a provider's bill with the ledger, and explain each difference.

    Each dollar of the bill belongs to a machine of the ledger or to a step of the table. Runs on
    these machines are marked as reconciled in the ledger, and by the worker in MLflow. Both show
    the charged and the billed cost. Reading the same bill again changes nothing. Lines that cannot
    be counted are listed on stderr: a repeated line, another currency, an unreadable value.
    """
    from gpu_core.cli.cost.reconcile import run_reconcile

    rows = require_rows(limit)
    return run_reconcile(file, options.address, limit=rows, dry_run=dry_run, as_json=as_json)


def _day(text: str | None) -> date:
    return datetime.now(UTC).date() if text is None else parse_day(text, "day")
