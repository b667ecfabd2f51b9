"""The usage ledger: who held which GPUs, when, at what price, and why it ended. SQL."""

from gpu_core.adapters.ledger.errors import (
    AttemptExists,
    LedgerError,
    LedgerTooNew,
    UnknownAttempt,
    UnknownRun,
)
from gpu_core.adapters.ledger.store import Ledger

__all__ = [
    "AttemptExists",
    "Ledger",
    "LedgerError",
    "LedgerTooNew",
    "UnknownAttempt",
    "UnknownRun",
]
