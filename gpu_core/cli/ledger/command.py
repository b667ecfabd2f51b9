"""`prefect-gpu ledger`: check the chains of the log of decisions, and purge old records."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from gpu_core.adapters.ledger.retention import purge_before
from gpu_core.adapters.ledger.source import open_to_read
from gpu_core.cli.shared.exit_codes import DONE, NO
from gpu_core.decisions.model.decision_chain import ChainCheck
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import count

# Where a chain has a problem.
_REMEDY = (
    "Compare these records with a backup of the ledger. They may have been modified by any user "
    "with write access. You will not be able to purge the log until the records have been restored."
)


def run_verify(
    ledger_url: Callable[[], str], key: bytes | None, kept: Sequence[str], *, as_json: bool
) -> int:
    """Print what the check of each chain found.

    Raises:
        InvalidInput: A kept hash has no writer, or the ledger's address cannot be used.
        LedgerError: The ledger cannot be read.
    """
    hashes = dict(map(_kept, kept))
    with open_to_read(ledger_url()) as ledger:
        checks = ledger.check_decisions(key, hashes)
    has_problem = any(check.problem for check in checks)
    if as_json:
        print(json.dumps([asdict(check) for check in checks], indent=2))
    else:
        print("\n".join([*_lines(checks), *([_REMEDY] if has_problem else ())]))
    return NO if has_problem else DONE


def _kept(text: str) -> tuple[str, str]:
    writer, _, kept_hash = text.rpartition("=")
    if not writer or re.fullmatch("[0-9a-f]{64}", kept_hash) is None:
        raise InvalidInput(
            "--kept-hash", "is not a writer with a hash", got=text,
            allowed="WRITER=HASH, as printed by `prefect-gpu ledger verify`",
        )  # fmt: skip
    return writer, kept_hash


def _lines(checks: Sequence[ChainCheck]) -> list[str]:
    if not checks:
        return ["No records found in the decision log."]
    return [_line(check) for check in checks]


def _line(check: ChainCheck) -> str:
    if check.problem is not None:
        return f"{check.writer}: {check.problem}"
    end = f"the last hash is {check.head.hash}"
    fit = "fits" if check.records == 1 else "fit together"
    records = f"{check.writer}: {count(check.records, 'record')} {fit}"
    if not check.purged:
        return f"{records}; {end}"
    signature = "signed" if check.is_anchor_checked else "whose signature was not verified"
    return f"{records} after a purge of {check.purged:,}, {signature}; {end}"


def run_purge(
    ledger_url: Callable[[], str], before: datetime, key: bytes | None, *, dry_run: bool
) -> int:
    """Delete the records of the log that are older than this, if its chains have no problem.

    Raises:
        InvalidInput: There is no key, `before` is not over, or the ledger's address cannot be used.
        LedgerError: The ledger cannot be read, or written.
    """
    now = datetime.now(UTC)
    if key is None:
        raise InvalidInput(
            "--anchor-key-file",
            "is required for signing the purged log",
            remedy="you can create a key with `openssl rand -hex 32`. Store it outside the ledger",
        )
    if before > now:
        raise InvalidInput("--before", "must not be in the future", got=before.date().isoformat())
    with open_to_read(ledger_url()) as ledger:
        purge = purge_before(ledger, before, key, now, dry_run=dry_run)
    if purge.problems:
        print("\n".join(_lines(purge.problems)))
        print("No records were deleted, because a purge would hide these problems.")
        return NO
    for writer, number in purge.cuts.items():
        done = "would be deleted" if dry_run else f"deleted ({purge.deleted.get(writer, 0):,})"
        print(f"{writer}: records up to {number:,} {done}")
    if not purge.cuts:
        print("No records found before this date.")
    return DONE
