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
    Parameter(help="The day after the 28 days that are judged, in UTC. Default: today."),
]
_Policy = Annotated[
    Path | None,
    Parameter(name="--policy", help="The policy that was in force. Default: that without a file."),
]
_Proposal = Annotated[str, Parameter(help="A proposal's id, such as spot-3f2a9c1b.")]


def optimize(
    *,
    day: _Day = None,
    policy: _Policy = None,
    options: LedgerOptions = DEFAULT_OPTIONS,
    as_json: AsJson = False,
) -> int:
    """Show where the money of four weeks went, and which changes would save some.

    Each change is simulated with the ledger's own history. A saving is shown with the interval
    that holds it in 80 % of the cases. Nothing is changed.
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
    by: Annotated[str | None, Parameter(help="Who undoes it. Default: your user name.")] = None,
    options: LedgerAddress = DEFAULT_ADDRESS,
) -> int:
    """Undo an applied proposal: its job variables get the values that they had before.

    Other job variables stay as they are. If someone has changed these since, nothing is changed.
    """
    from gpu_core.cli.shared.prefect_settings import load_prefect

    load_prefect()
    from gpu_core.cli.optimize.undo import run_undo

    return run_undo(proposal, options.address, by)
