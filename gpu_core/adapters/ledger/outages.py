"""Is the ledger away, and does it come back by itself? What an error of its database shows.

What the worker does meanwhile is in `gpu_core/worker/DESIGN.md`, "While the ledger is unavailable".
"""

import os

from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError, StatementError

from gpu_core.adapters.files.errnos import REFUSED_PATHS
from gpu_core.adapters.ledger.errors import LedgerError, UnknownAttempt

# How PostgreSQL and its client word a refusal to connect; an error of a connection has no code.
_REFUSED_CONNECTIONS = (
    "authentication failed",
    "no password supplied",
    "pg_hba.conf",
    "does not exist",
    "permission denied",
)
# https://www.postgresql.org/docs/current/errcodes-appendix.html: invalid authorization, invalid
# catalog name, insufficient privilege.
_REFUSED_STATES = ("28000", "28P01", "3D000", "42501")
# https://www.sqlite.org/rescode.html: a file of another kind, and one that may not be written.
_REFUSED_FILES = ("SQLITE_NOTADB", "SQLITE_READONLY", "SQLITE_PERM")


def is_refusal(error: BaseException, file: str | None = None) -> bool:
    """Does the ledger stay closed until a person changes something, as this error shows?

    False: it may open later by itself, such as after a restart of its server or on a full disk.

    Args:
        error: What opening it failed with: an `OSError`, or SQLAlchemy's error.
        file: The database's file, of SQLite.
    """
    if isinstance(error, OSError):
        return error.errno in REFUSED_PATHS
    cause = getattr(error, "orig", None) or error
    if getattr(cause, "sqlstate", None) in _REFUSED_STATES:
        return True
    code = str(getattr(cause, "sqlite_errorname", ""))
    if code.startswith("SQLITE_CANTOPEN") and file is not None:
        return _is_refused(file)
    if code.startswith(_REFUSED_FILES):
        return True
    return any(words in str(cause) for words in _REFUSED_CONNECTIONS)


def _is_refused(file: str) -> bool:
    """Why could SQLite not open it? It names no cause, and a full disk is no refusal."""
    try:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
    except OSError as error:
        return error.errno in REFUSED_PATHS
    return False


def is_clash(error: BaseException) -> bool:
    """Did the database undo this transaction in favor of another one, and serve all others?

    Transactions that change several rows in different orders may wait for each other.
    """
    # The same page: serialization failure, deadlock detected.
    return getattr(getattr(error, "orig", None), "sqlstate", None) in ("40001", "40P01")


def is_ledger_outage(error: BaseException) -> bool:
    """Does this error show that the ledger answers no request now, whichever it is?

    A connection that is cut, a pool of connections that is used up, a server that is read-only
    after a failover, a missing table: all of them meet every statement. What a database says of the
    values of one statement (DataError, IntegrityError, StatementError itself) concerns those alone.
    """
    if isinstance(error, UnknownAttempt | DataError | IntegrityError):
        return False
    return isinstance(error, LedgerError) or (
        isinstance(error, SQLAlchemyError) and type(error) is not StatementError
    )
