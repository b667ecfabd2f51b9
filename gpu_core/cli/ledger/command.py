"""`prefect-gpu ledger`: check the chains of the log of decisions, and purge old records."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from gpu_core.adapters.ledger.retention import purge_before
from gpu_core.adapters.ledger.source import open_to_read
from gpu_core.cli.shared.exit_codes import DONE, NO
from gpu_core.decisions.model.decision_chain import ChainCheck
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import count


def run_verify(ledger_url: Callable[[], str], key: bytes | None, *, as_json: bool) -> int:
    """Print what the check of each chain found.

    Raises:
        InvalidInput: The ledger's address cannot be used.
        LedgerError: The ledger cannot be read.
    """
    with open_to_read(ledger_url()) as ledger:
        checks = ledger.check_decisions(key)
    if as_json:
        print(json.dumps([asdict(check) for check in checks], indent=2))
    else:
        print("\n".join(_lines(checks)))
    return NO if any(check.problem for check in checks) else DONE


def _lines(checks: Sequence[ChainCheck]) -> list[str]:
    if not checks:
        return ["The log of decisions is empty."]
    return [_line(check) for check in checks]


def _line(check: ChainCheck) -> str:
    if check.problem is not None:
        return f"{check.writer}: {check.problem}"
    end = f"the last hash is {check.head.hash}"
    records = f"{check.writer}: {count(check.records, 'record')}"
    if not check.purged:
        return f"{records} fit together; {end}"
    signature = "signed" if check.is_anchor_checked else "whose signature was not checked"
    return f"{records} fit together after a purge of {check.purged:,}, {signature}; {end}"


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
            "is missing: what a purge leaves is signed",
            remedy="create a key with `openssl rand -hex 32`, and keep it outside the ledger",
        )
    if before > now:
        raise InvalidInput("--before", "is in the future", got=before.date().isoformat())
    with open_to_read(ledger_url()) as ledger:
        purge = purge_before(ledger, before, key, now, dry_run=dry_run)
    if purge.problems:
        print("\n".join(_lines(purge.problems)))
        print("Nothing was deleted: a purge would hide that.")
        return NO
    for writer, number in purge.cuts.items():
        done = "would be deleted" if dry_run else f"deleted ({purge.deleted.get(writer, 0):,})"
        print(f"{writer}: records up to {number:,} {done}")
    if not purge.cuts:
        print("No record is that old.")
    return DONE
