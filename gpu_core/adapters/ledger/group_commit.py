"""Group commit: writes of several threads share one transaction, and one wait for the disk.

With a transaction for each write a hundred starts wait longer for the ledger than for all else:
every commit waits for the disk, SQLite lets one transaction write at a time, and those that wait
poll for its lock.
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import sqlalchemy as sa

from gpu_core.adapters.ledger.errors import LedgerError
from gpu_core.adapters.ledger.outages import is_clash, is_ledger_outage

T = TypeVar("T")


class _Write:
    """One caller's statements, and what came of them."""

    def __init__(self, statements: Callable[[sa.Connection], Any]) -> None:
        self.statements = statements
        self.result: Any = None
        # Until it is committed: what ends the thread that commits for all must not look like that.
        self.error: Exception | None = LedgerError("the transaction was interrupted")
        self.is_done = False


class GroupCommit:
    """Writes to a database; each is on the disk before its caller continues.

    What comes while a transaction is under way is gathered for the next one, so no caller waits for
    company. Safe to use from any thread.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._gathering = threading.Lock()
        self._committing = threading.Lock()
        self._gathered: list[_Write] = []

    def write(self, statements: Callable[[sa.Connection], T]) -> T:
        """Execute these statements in a transaction, and return what they return.

        They may be executed twice: a shared transaction in which another caller's statements fail
        is rolled back, and each caller's are executed in a transaction of their own.

        Raises:
            SQLAlchemyError: They failed, or the database did; nothing of them is written, unless
                it failed during the commit.
        """
        write = _Write(statements)
        with self._gathering:
            self._gathered.append(write)
        with self._committing:
            if not write.is_done:
                self._commit_gathered()
        if write.error is not None:
            raise write.error
        result: T = write.result
        return result

    def _commit_gathered(self) -> None:
        with self._gathering:
            writes, self._gathered = self._gathered, []
        try:
            self._commit(writes)
        except Exception as error:
            is_of_all = is_ledger_outage(error) and not is_clash(error)
            if len(writes) == 1 or is_of_all:
                _fail(writes, error)
            else:
                self._commit_each(writes)
        finally:
            for write in writes:
                write.is_done = True

    def _commit(self, writes: list[_Write]) -> None:
        with self._engine.begin() as connection:
            for write in writes:
                write.result = write.statements(connection)
        for write in writes:
            write.error = None

    def _commit_each(self, writes: list[_Write]) -> None:
        for write in writes:
            try:
                self._commit([write])
            except Exception as error:
                _fail([write], error)


def _fail(writes: list[_Write], error: Exception) -> None:
    for write in writes:
        write.error = error
