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
        help="The end date (exclusive) of the 28-day analysis period, in UTC. Defaults to today "
        "if not specified."
    ),
]
_Policy = Annotated[
    Path | None,
    Parameter(
        name="--policy",
        help="Path to a policy file. Defaults to the policy recorded in the ledger for that date.",
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
    """List recommendations for reducing GPU costs.

    Recommendations are based on the last four weeks of usage. Each recommended change is simulated
    with the usage history in the ledger, and its expected savings are displayed with an 80%
    prediction interval. No changes are made to your deployments.
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
    """Show details about a proposal, including its evidence, expected savings and risks."""
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
        Parameter(
            help="The user name to record for this action. Defaults to the current user if "
            "not specified."
        ),
    ] = None,
    options: LedgerAddress = DEFAULT_ADDRESS,
) -> int:
    """Revert an applied proposal by restoring the previous values of its job variables.

    Other job variables are not affected. If the job variables were modified after the proposal was
    applied, no changes are made.
    """
    from gpu_core.cli.shared.prefect_settings import load_prefect

    load_prefect()
    from gpu_core.cli.optimize.undo import run_undo

    return run_undo(proposal, options.address, by)
