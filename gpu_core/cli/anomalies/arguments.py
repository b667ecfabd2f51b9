"""The options of `prefect-gpu anomalies`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from gpu_core.cli.cost.arguments import DEFAULT_OPTIONS, LedgerOptions
from gpu_core.cli.shared.options import AsJson, parse_day, repeated


def anomalies(
    *,
    date_: Annotated[
        str | None,
        Parameter(
            name="--date",
            help="The date to report on, in UTC (e.g. 2026-11-24). Defaults to yesterday.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        Parameter(
            help="Include all days from this date until yesterday. Must be at most 31 days ago."
        ),
    ] = None,
    by: Annotated[
        tuple[str, ...],
        repeated(
            "Filter anomalies by total, team, project, deployment or gpu-type. Defaults to all"
        ),
    ] = (),
    policy: Annotated[
        Path | None,
        Parameter(
            help="The policy with the planned days and budgets. Defaults to the one in force, from "
            "the ledger."
        ),
    ] = None,
    options: LedgerOptions = DEFAULT_OPTIONS,
    as_json: AsJson = False,
) -> int:
    """Show which costs were unusual, why, and what would help.

    A day is judged by the same weekdays before it. The reasons add up to the difference from what
    was expected, to the micro-dollar. An anomaly of several days is shown with its first day.
    """
    from gpu_core.cli.anomalies.command import run_anomalies

    return run_anomalies(
        options.address,
        None if date_ is None else parse_day(date_, "--date"),
        None if since is None else parse_day(since, "--since"),
        by,
        pool=options.pool,
        with_generated=options.with_generated,
        policy_path=policy,
        as_json=as_json,
    )
