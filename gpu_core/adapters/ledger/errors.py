"""What can go wrong with the ledger, one class for each thing a caller may want to tell apart."""

from gpu_core.decisions.errors import GpuSchedulingError


class LedgerError(GpuSchedulingError):
    """The ledger could not be opened, or refused what it was told; nothing was written."""


class LedgerTooNew(LedgerError):
    """A newer version of this library has upgraded the database."""


class UnknownAttempt(LedgerError):
    """The ledger has no such attempt."""
