"""The options of `prefect-gpu optimize ask`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from gpu_core.cli.cost.arguments import DEFAULT_OPTIONS, LedgerOptions
from gpu_core.cli.shared.options import AsJson


def ask(
    question: Annotated[
        str,
        Parameter(
            help=(
                "The question to answer (e.g. 'most expensive workloads this week'). See "
                "docs/questions.md for a list of supported questions."
            )
        ),
    ],
    /,
    *,
    options: LedgerOptions = DEFAULT_OPTIONS,
    policy: Annotated[
        Path | None,
        Parameter(
            help="Path to a policy file specifying quotas. Defaults to the policy recorded in "
            "the ledger."
        ),
    ] = None,
    limit: Annotated[
        int,
        Parameter(
            help="The maximum number of rows to display. Any remaining rows are combined into a "
            "single row."
        ),
    ] = 10,
    as_json: AsJson = False,
) -> int:
    """Answer a question about GPU costs, wasted resources or wait times.

    You can specify the time period as part of the question, for example today, yesterday, on
    Tuesday, this week, last month, last 14 days or 2026-11-24. If no period is specified, the last
    7 full days (in UTC) will be used.
    """
    from gpu_core.cli.optimize.ask_command import run_ask

    return run_ask(
        question,
        options.address,
        pool=options.pool,
        with_generated=options.with_generated,
        policy=policy,
        limit=limit,
        as_json=as_json,
    )
