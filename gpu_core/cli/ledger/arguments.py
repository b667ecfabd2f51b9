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
    str | None, secret_file(_KEY, "The key to use when signing the log after a purge")
]


def verify(
    *,
    anchor_key_file: _AnchorKey = None,
    kept_hash: Annotated[
        Sequence[str],
        Parameter(
            help="WRITER=HASH: a last hash that was kept; some record must still have it. "
            "Once for each writer."
        ),
    ] = (),
    options: LedgerOptions = DEFAULT_OPTIONS,
    as_json: AsJson = False,
) -> int:
    """Check that no record of the log of decisions was changed or taken out.

    Each writer's records are a chain of hashes. Keep the last hash elsewhere: only by it can you
    see that the newest records are missing, or that the whole chain was written anew: with
    --kept-hash. A chain that was purged begins at its anchor, whose signature is checked with the
    key.
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
    """Delete old records of the log of decisions; a signed anchor of each writer stays.

    Without this command all records are kept. The chains and earlier anchors are checked first,
    and nothing is deleted if one has a problem. The last record of each writer stays.
    Proposals, and runs, attempts and machines, of which costs are made, stay as well.
    """
    from gpu_core.cli.ledger.command import run_purge

    first_kept = datetime.combine(parse_day(before, "before"), time(), UTC)
    return run_purge(options.address, first_kept, _key(anchor_key_file), dry_run=dry_run)


def _key(file: str | None) -> bytes | None:
    from gpu_core.cli.shared.secret_options import secret_option
    from gpu_core.decisions.model.decision_anchor import anchor_key

    text = secret_option(_KEY, None, file)
    return None if text is None else anchor_key(text)
