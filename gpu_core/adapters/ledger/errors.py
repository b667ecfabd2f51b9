"""The errors of the ledger, one class for each that a caller may handle differently."""

from gpu_core.decisions.model.errors import GpuSchedulingError


class LedgerError(GpuSchedulingError):
    """The ledger could not be opened, or refused a record; nothing was written."""


class LedgerRefused(LedgerError):
    """The ledger cannot be opened until a person changes its address or its rights."""


class LedgerTooNew(LedgerRefused):
    """A newer version of this library has upgraded the database."""


class PoolNotOurs(LedgerError):
    """Another installation acts for the pool by now; nothing was written."""


class UnknownAttempt(LedgerError):
    """The ledger has no such attempt."""
