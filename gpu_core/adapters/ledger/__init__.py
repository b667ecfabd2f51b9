"""The usage ledger: who held which GPUs, when, at what price, and why it ended. SQL."""

from gpu_core.adapters.ledger.errors import (
    LedgerError,
    LedgerRefused,
    LedgerTooNew,
    PoolNotOurs,
    UnknownAttempt,
)
from gpu_core.adapters.ledger.outages import is_ledger_outage
from gpu_core.adapters.ledger.store import Ledger

__all__ = [
    "Ledger",
    "LedgerError",
    "LedgerRefused",
    "LedgerTooNew",
    "PoolNotOurs",
    "UnknownAttempt",
    "is_ledger_outage",
]
