"""The options of `prefect-gpu ledger`."""

from collections.abc import Sequence
from datetime import UTC, datetime, time
from typing import Annotated

from cyclopts import Parameter

from gpu_core.cli.cost.arguments import (
    DEFAULT_ADDRESS,
    DEFAULT_OPTIONS,
    LedgerAddress,
    LedgerOptions,
)
from gpu_core.cli.shared.options import AsJson, flag, parse_day
from gpu_core.cli.shared.secret_options import secret_file

_KEY = "anchor-key"
_AnchorKey = Annotated[
    str | None, secret_file(_KEY, "Path to a file containing the key for signing purged logs")
]


def verify(
    *,
    anchor_key_file: _AnchorKey = None,
    kept_hash: Annotated[
        Sequence[str],
        Parameter(
            help="A previously stored hash that must still be part of the chain, as WRITER=HASH. "
            "Can be specified once per writer."
        ),
    ] = (),
    options: LedgerOptions = DEFAULT_OPTIONS,
    as_json: AsJson = False,
) -> int:
    """Verify the integrity of the decision log.

    Each writer's records are hash-chained, allowing you to detect any modified or deleted record.
    To also detect that the newest records were deleted or that the entire chain was rewritten,
    store the last hash outside the ledger and provide it with --kept-hash. If a chain was purged,
    the signature of its anchor is verified with the key.
    """
    from gpu_core.cli.ledger.command import run_verify

    return run_verify(options.address, _key(anchor_key_file), kept_hash, as_json=as_json)


def purge(
    *,
    before: Annotated[
        str, Parameter(help="Delete records created before this date, in UTC (e.g. 2026-01-01).")
    ],
    anchor_key_file: _AnchorKey = None,
    dry_run: Annotated[bool, flag("If set, only print the records that would be deleted.")] = False,
    options: LedgerAddress = DEFAULT_ADDRESS,
) -> int:
    """Delete old records from the decision log.

    By default, all records are retained. All chains are verified before the purge, and no records
    are deleted if the verification fails. A signed anchor and the last record of each writer are
    always retained, as are proposals and all records used to calculate costs.
    """
    from gpu_core.cli.ledger.command import run_purge

    first_kept = datetime.combine(parse_day(before, "before"), time(), UTC)
    return run_purge(options.address, first_kept, _key(anchor_key_file), dry_run=dry_run)


def _key(file: str | None) -> bytes | None:
    from gpu_core.cli.shared.secret_options import secret_option
    from gpu_core.decisions.model.decision_anchor import anchor_key

    text = secret_option(_KEY, None, file)
    return None if text is None else anchor_key(text)
