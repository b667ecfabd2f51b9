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
            help="The date to report on, in UTC (e.g. 2026-11-24). Defaults to yesterday if not "
            "specified.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        Parameter(help="Only show anomalies since this date. Must be within the last 31 days."),
    ] = None,
    by: Annotated[
        tuple[str, ...],
        repeated(
            "Filter by anomaly scope: total, team, project, deployment or gpu-type. If not "
            "provided, all scopes are included"
        ),
    ] = (),
    policy: Annotated[
        Path | None,
        Parameter(
            help="Path to a policy file specifying planned activities and budgets. Defaults to "
            "the active policy recorded in the ledger."
        ),
    ] = None,
    options: LedgerOptions = DEFAULT_OPTIONS,
    as_json: AsJson = False,
) -> int:
    """List cost anomalies with their causes and recommended actions.

    Costs are compared with those of the same weekday in previous weeks. The listed causes account
    for the entire difference between the actual and the expected cost. For anomalies lasting
    several days, the first day is also shown.
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
