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
                "The question to answer, such as 'most expensive workloads this week'. See "
                "docs/questions.md for a list."
            )
        ),
    ],
    /,
    *,
    options: LedgerOptions = DEFAULT_OPTIONS,
    policy: Annotated[
        Path | None,
        Parameter(
            help="Path to a policy file to read quotas from. Defaults to the policy in the ledger."
        ),
    ] = None,
    limit: Annotated[
        int,
        Parameter(
            help="Limit the number of rows displayed. Remaining rows are summarized in one row."
        ),
    ] = 10,
    as_json: AsJson = False,
) -> int:
    """Answer a question about costs, waste and waits, and say where the numbers come from.

    The time is a part of the question: today, yesterday, on Tuesday, this week, last month, last 14
    days, 2026-11-24. Without one it is the last 7 whole days, in UTC.
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
