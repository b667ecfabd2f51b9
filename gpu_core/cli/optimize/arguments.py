"""The options of `prefect-gpu optimize` and of its parts."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from gpu_core.cli.cost.arguments import (
    DEFAULT_ADDRESS,
    DEFAULT_OPTIONS,
    LedgerAddress,
    LedgerOptions,
)
from gpu_core.cli.shared.options import AsJson

_Day = Annotated[
    str | None,
    Parameter(
        help="The end date of the 28-day analysis window, in UTC (exclusive). Defaults to today."
    ),
]
_Policy = Annotated[
    Path | None,
    Parameter(
        name="--policy",
        help=(
            "Path to the policy file to use. Defaults to the policy recorded in the ledger for "
            "that date."
        ),
    ),
]
_Proposal = Annotated[str, Parameter(help="The ID of the proposal (e.g. spot-3f2a9c1b).")]


def optimize(
    *,
    day: _Day = None,
    policy: _Policy = None,
    options: LedgerOptions = DEFAULT_OPTIONS,
    as_json: AsJson = False,
) -> int:
    """Show the cost of the last four weeks, and propose changes that reduce it.

    Each change is simulated with the ledger's own history. A saving is shown with its 80%
    prediction interval. The command changes nothing.
    """
    from gpu_core.cli.optimize.command import run_optimize

    return run_optimize(
        options.address,
        day,
        policy,
        pool=options.pool,
        with_generated=options.with_generated,
        as_json=as_json,
    )


def show(
    proposal: _Proposal,
    /,
    *,
    day: _Day = None,
    policy: _Policy = None,
    options: LedgerOptions = DEFAULT_OPTIONS,
    as_json: AsJson = False,
) -> int:
    """Show one proposal: the change, its evidence, the saving, the risk and how to undo it."""
    from gpu_core.cli.optimize.command import run_show

    return run_show(
        proposal,
        options.address,
        day,
        policy,
        pool=options.pool,
        with_generated=options.with_generated,
        as_json=as_json,
    )


def undo(
    proposal: _Proposal,
    /,
    *,
    by: Annotated[
        str | None,
        Parameter(help="The user name to record for this action. Defaults to the current user."),
    ] = None,
    options: LedgerAddress = DEFAULT_ADDRESS,
) -> int:
    """Undo an applied proposal: restore the earlier values of its job variables.

    Other job variables keep their values. If these were changed since, the command changes nothing.
    """
    from gpu_core.cli.shared.prefect_settings import load_prefect

    load_prefect()
    from gpu_core.cli.optimize.undo import run_undo

    return run_undo(proposal, options.address, by)
