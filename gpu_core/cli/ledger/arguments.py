"""The options of `prefect-gpu ledger`."""

from gpu_core.cli.cost.arguments import DEFAULT_OPTIONS, LedgerOptions
from gpu_core.cli.shared.options import AsJson


def verify(*, options: LedgerOptions = DEFAULT_OPTIONS, as_json: AsJson = False) -> int:
    """Check that no record of the log of decisions was changed or taken out.

    Each writer's records are a chain of hashes. Keep the last hash elsewhere: only by it can you
    see that the newest records are missing, or that the whole chain was written anew.
    """
    from gpu_core.cli.ledger.command import run_verify

    return run_verify(options.address(), as_json=as_json)
