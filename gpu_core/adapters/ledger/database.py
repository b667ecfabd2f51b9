"""The database of a ledger: a write is one transaction, on the disk before its method returns."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, NamedTuple, Self

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from gpu_core.adapters.ledger.engine import (
    connect,
    parse_url,
    writing,
)
from gpu_core.adapters.ledger.errors import LedgerError, LedgerRefused
from gpu_core.adapters.ledger.group_commit import GroupCommit
from gpu_core.adapters.ledger.migrate import upgrade_to_head
from gpu_core.adapters.ledger.outages import is_refusal
from gpu_core.decisions.checks.prefect.pool_claim import Installation
from gpu_core.decisions.model.decision_chain import (
    Decision,
)
from gpu_core.decisions.model.errors import sentences
from gpu_core.decisions.model.redaction import redact, secrets_in
from gpu_core.decisions.model.units import require_aware


class Logged(NamedTuple):
    """Decisions for the log."""

    writer: str
    """The writer of the chain that they are added to."""
    decisions: Sequence[Decision]


class UnloggedEnd(NamedTuple):
    """An end after which the cost of the run is not in MLflow yet."""

    host: str
    """The host whose worker logs it."""
    at: datetime


class LedgerDatabase:
    """The database of a ledger, open for reading and writing. Safe to use from any thread."""

    def __init__(self, engine: sa.Engine) -> None:
        self._reader = engine
        self._writer = writing(engine)
        self._commits = GroupCommit(self._writer)
        self._damaged: set[str] = set()
        self._fence: tuple[str, Installation] | None = None

    @classmethod
    def open(cls, url: str) -> Self:
        """Open the ledger, creating or upgrading its tables.

        Args:
            url: `sqlite:////absolute/path/ledger.db`, or `postgresql+psycopg://…`.

        Raises:
            InvalidInput: The address cannot be used.
            LedgerTooNew: A newer version of this library has upgraded the database.
            LedgerRefused: The database cannot be opened until a person changes something.
            LedgerError: The database cannot be reached or written.
        """
        parsed = parse_url(url)
        try:
            engine = connect(parsed)
            try:
                upgrade_to_head(writing(engine))
            except BaseException:
                engine.dispose()
                raise
        except (OSError, SQLAlchemyError) as error:
            cause = getattr(error, "orig", None) or error
            shown = redact(parsed.render_as_string(hide_password=True))
            text = redact(" ".join(str(cause).split()), secrets_in(url))
            kind = LedgerRefused if is_refusal(error, parsed.database) else LedgerError
            raise kind(f"cannot open the ledger at {shown}: {text}") from error
        return cls(engine)

    def name_errors(self) -> None:
        """What the database says to a reader becomes a `LedgerError`, for commands.

        Without this, callers get the database's own errors (`is_ledger_outage`).
        """
        # An engine of its own: writers repeat what clashes, and need the error of the database.
        self._reader = self._reader.execution_options()
        sa.event.listen(self._reader, "handle_error", _as_ledger_error)

    def close(self) -> None:
        """Close all connections; the ledger is not used after this."""
        self._reader.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({redact(self._reader.url.render_as_string(hide_password=True))!r})"

    def _update(self, table: sa.Table, where: sa.ColumnElement[bool], **values: Any) -> bool:
        return self._changes_a_row(sa.update(table).where(where).values(values_of(values)))

    def _changes_a_row(self, statement: sa.Update | sa.Delete) -> bool:
        return self._commits.write(lambda connection: connection.execute(statement).rowcount == 1)


def _as_ledger_error(context: sa.engine.ExceptionContext) -> None:
    cause = " ".join(str(context.original_exception).split())
    raise LedgerError(
        sentences(
            f"failed to read the ledger: {redact(cause)}",
            "restart its database or, if it is damaged, restore a backup",
        )
    ) from context.original_exception


def values_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a record as columns take them."""
    # Checked here and not only in the column type, so that the error names the field.
    return {
        name: require_aware(value, name) if isinstance(value, datetime) else value
        for name, value in record.items()
    }
