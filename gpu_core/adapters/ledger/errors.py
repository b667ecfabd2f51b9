"""What can go wrong with the ledger, one class for each thing a caller may want to tell apart."""

from gpu_core.decisions.errors import GpuSchedulingError


class LedgerError(GpuSchedulingError):
    """The ledger could not be opened, or refused a record; nothing was written."""


class LedgerTooNew(LedgerError):
    """A newer version of this library has upgraded the database."""


class AttemptExists(LedgerError):
    """This attempt id, or this number of the run's attempts, is already taken."""


class UnknownRun(LedgerError):
    """The ledger has no such run, so that an attempt of it would have no owner."""


class UnknownAttempt(LedgerError):
    """The ledger has no such attempt."""
