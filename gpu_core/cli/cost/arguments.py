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
            "The file path or URL of the ledger. Defaults to the ledger of the work pool",
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
            help="Filter by work pool. If not provided, runs in all work pools will be included."
        ),
    ] = None
    with_generated: Annotated[
        bool, flag("If set, include generated sample runs in the results.")
    ] = False


DEFAULT_ADDRESS = LedgerAddress()
DEFAULT_OPTIONS = LedgerOptions()
_Period = Annotated[
    str, Parameter(help="The period to report on: day, week (starting on Monday) or month, in UTC.")
]
_Day = Annotated[
    str | None,
    Parameter(
        help="Any date within the period to report on (e.g. 2026-11-24). Defaults to today "
        "if not specified."
    ),
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
            "model, workload-type, gpu-type, capacity-type or zone. At most three keys can be "
            "specified. Defaults to team"
        ),
    ] = ("team",),
    idle: Annotated[
        str,
        Parameter(
            help="How to distribute the cost of idle capacity: none (reported separately), "
            "evenly (equal amounts for all groups), by-use (in proportion to the cost of "
            "each group) or reservation (assigned to the team that reserved the node)."
        ),
    ] = "none",
    policy: Annotated[
        Path | None,
        Parameter(
            help="Path to a policy file specifying the reservations for --idle reservation. "
            "Defaults to the policy recorded in the ledger for that period."
        ),
    ] = None,
    options: LedgerOptions = DEFAULT_OPTIONS,
    show: Annotated[
        str,
        Parameter(
            help="The columns to display: usage (GPU-hours), resources (cost by GPU, CPU and "
            "memory) or time (cost by useful, lost, restart and queued-on-node time)."
        ),
    ] = "usage",
    limit: Annotated[
        int,
        Parameter(
            help="The maximum number of rows to display. Any remaining rows are combined into a "
            "single row."
        ),
    ] = 20,
    as_csv: Annotated[bool, flag("Output in CSV format.", name="--csv")] = False,
    as_json: AsJson = False,
) -> int:
    """Show the cost of GPU usage for a day, week or month.

    The rows and the idle capacity add up to the exact total. Usage without a known price is
    reported as unpriced.
    """
    from gpu_core.cli.cost.command import ReportFormat, run_report
    from gpu_core.decisions.model.errors import InvalidInput

    if as_csv and as_json:
        raise InvalidInput(
            "--csv", "cannot be used with --json", remedy="please specify only one of these options"
        )
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
        Parameter(
            help="Path to the output file (.csv or .parquet). If not provided, CSV will be "
            "written to stdout."
        ),
    ] = None,
) -> int:
    """Export the cost of a day, week or month in the FinOps FOCUS format.

    The file contains one row for each resource, price and month of an attempt. The total billed
    cost is equal to the total of `prefect-gpu cost report` for the same period. Usage without a
    known price is excluded and listed on stderr.
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
            help="The month to report on, in UTC (e.g. 2026-10). Defaults to the current month "
            "if not specified."
        ),
    ] = None,
    policy: Annotated[
        Path | None,
        Parameter(
            help="Path to a policy file specifying prices, rates and scale.max_gpus. Defaults to "
            "the policy recorded in the ledger for that month."
        ),
    ] = None,
    prices: Annotated[
        Path | None,
        Parameter(
            help="Path to a file containing custom prices. If provided, these "
            "prices take precedence over the catalog."
        ),
    ] = None,
    committed_percent: Annotated[
        str | None,
        Parameter(
            help="The price of a commitment, as a percentage of the on-demand price. Defaults to "
            "the `reserved` price in the policy or ledger."
        ),
    ] = None,
    options: LedgerOptions = DEFAULT_OPTIONS,
    as_json: AsJson = False,
) -> int:
    """Show the savings of a month from spot capacity, elasticity and commitments.

    The actual cost is compared with the cost of the same machine-hours at on-demand prices, with
    the lowest possible cost and with the cost of fixed-size clusters. Machines without a known
    price are excluded from all totals and listed on stderr.
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
    file: Annotated[Path, Parameter(help="Path to the bill in FOCUS format (.csv or .parquet).")],
    /,
    *,
    options: LedgerAddress = DEFAULT_ADDRESS,
    limit: Annotated[int, Parameter(help="Maximum number of rows to display per table.")] = 20,
    dry_run: Annotated[
        bool, flag("If set, print the results without updating the ledger.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Reconcile the ledger with a cloud provider's bill.

    Each amount on the bill is matched with a machine in the ledger or assigned to a category of
    differences. The flow runs on matched machines are marked as reconciled, both in the ledger and
    in MLflow, along with their billed cost. This command is idempotent. Lines with duplicate,
    unreadable or foreign currency amounts are skipped and listed on stderr.
    """
    from gpu_core.cli.cost.reconcile import run_reconcile

    rows = require_rows(limit)
    return run_reconcile(file, options.address, limit=rows, dry_run=dry_run, as_json=as_json)


def _day(text: str | None) -> date:
    return datetime.now(UTC).date() if text is None else parse_day(text, "day")
