"""Old records of the log of decisions go, where no chain has a problem that this would hide."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gpu_core.adapters.ledger.store import Ledger
from gpu_core.decisions.model.decision_chain import ChainCheck


@dataclass(frozen=True, slots=True, kw_only=True)
class Purge:
    """The records that a purge found and deleted."""

    problems: tuple[ChainCheck, ...] = ()
    """Chains with a problem; with one, nothing is deleted."""
    cuts: Mapping[str, int] = field(default_factory=dict)
    """By writer: the last record that is old enough to go."""
    deleted: Mapping[str, int] = field(default_factory=dict)
    """By writer: how many records went."""


def purge_before(
    ledger: Ledger, before: datetime, key: bytes, now: datetime, *, dry_run: bool = False
) -> Purge:
    """Delete the records that are older than this; a signed anchor of each writer stays.

    Args:
        ledger: The ledger, open.
        before: Aware; records of this moment and later ones stay.
        key: Checks earlier anchors, and signs the new ones.
        now: When it is done.
        dry_run: Find what would go, and delete nothing.

    Raises:
        LedgerError: The ledger cannot be read, or written.
    """
    problems = tuple(check for check in ledger.check_decisions(key) if check.problem)
    if problems:
        return Purge(problems=problems)
    cuts = ledger.purgeable_decisions(before)
    return Purge(cuts=cuts, deleted={} if dry_run else ledger.purge_decisions(cuts, key, now))
