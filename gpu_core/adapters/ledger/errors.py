"""What can go wrong with the ledger, one class for each thing a caller may want to tell apart."""

from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError, StatementError

from gpu_core.decisions.errors import GpuSchedulingError


class LedgerError(GpuSchedulingError):
    """The ledger could not be opened, or refused what it was told; nothing was written."""


class LedgerTooNew(LedgerError):
    """A newer version of this library has upgraded the database."""


class UnknownAttempt(LedgerError):
    """The ledger has no such attempt."""


def is_ledger_outage(error: BaseException) -> bool:
    """Does this error show that the ledger serves nobody just now, whatever is asked of it?

    A connection that is cut, a pool of connections that is used up, a server that is read-only
    after a failover, a missing table: all of them meet every statement. What a database says of the
    values of one statement (DataError, IntegrityError, StatementError itself) concerns those alone.
    """
    if isinstance(error, UnknownAttempt | DataError | IntegrityError):
        return False
    return isinstance(error, LedgerError) or (
        isinstance(error, SQLAlchemyError) and type(error) is not StatementError
    )
