"""Look at a ledger's database without changing it: no file, no table and no upgrade is made."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import URL

from gpu_core.adapters.ledger.engine import connect, parse_url
from gpu_core.adapters.ledger.errors import LedgerError
from gpu_core.adapters.ledger.migrate import MIGRATIONS
from gpu_core.adapters.ledger.pool_claims import read_claim
from gpu_core.adapters.ledger.schema import pool_claims
from gpu_core.decisions.prefect.pool_claim import PoolClaim

# Another process may write; doctor does not wait as long as a worker.
_BUSY_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerInspection:
    """What a look at the ledger's database found.

    Attributes:
        address: Without its password.
        is_there: Whether the database exists.
        version: Of its tables; None: it has none of them.
        newest: The version that this code makes.
        is_known: Whether this code has heard of its version.
        latency_s: Of one query.
        now: What the database server's clock shows; None: it has no clock of its own.
        asked_at: What this machine's clock showed in the middle of that question.
    """

    address: str
    is_there: bool
    version: str | None
    newest: str
    is_known: bool
    latency_s: float
    now: datetime | None
    asked_at: datetime


def inspect_ledger(url: str) -> LedgerInspection:
    """What is there, and of which version?

    Raises:
        InvalidInput: It is no address of a ledger.
        LedgerError: The database cannot be reached, or refuses.
    """
    parsed = parse_url(url)
    address = parsed.render_as_string(hide_password=True)
    scripts = ScriptDirectory(str(MIGRATIONS))
    newest = str(scripts.get_current_head())
    if parsed.get_backend_name() == "sqlite" and not Path(parsed.database or "").is_file():
        return LedgerInspection(
            address=address,
            is_there=False,
            version=None,
            newest=newest,
            is_known=True,
            latency_s=0.0,
            now=None,
            asked_at=datetime.now(UTC),
        )
    try:
        with _reading(parsed) as connection:
            version = MigrationContext.configure(connection).get_current_revision()
            began_s = time.perf_counter()
            now = _now(connection)
            latency_s = time.perf_counter() - began_s
            asked_at = datetime.now(UTC)
    except (sa.exc.SQLAlchemyError, OSError) as error:
        raise _unreadable(address, error) from error
    return LedgerInspection(
        address=address,
        is_there=True,
        version=version,
        newest=newest,
        is_known=version in {script.revision for script in scripts.walk_revisions()},
        latency_s=latency_s,
        now=now,
        asked_at=asked_at,
    )


def inspect_claim(url: str, pool_id: str) -> PoolClaim | None:
    """Which installation acts for this pool? None: none has claimed it in this ledger.

    Raises:
        InvalidInput: It is no address of a ledger.
        LedgerError: The database cannot be reached, or refuses.
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite" and not Path(parsed.database or "").is_file():
        return None
    try:
        with _reading(parsed) as connection:
            # A worker of an older version has made no such table.
            if not sa.inspect(connection).has_table(pool_claims.name):
                return None
            return read_claim(connection, pool_id)
    except (sa.exc.SQLAlchemyError, OSError) as error:
        raise _unreadable(parsed.render_as_string(hide_password=True), error) from error


def _unreadable(address: str, error: Exception) -> LedgerError:
    cause = " ".join(str(getattr(error, "orig", None) or error).split())
    return LedgerError(f"cannot read the ledger at {address}: {cause}")


@contextmanager
def _reading(url: URL) -> Iterator[sa.Connection]:
    engine = _reader(url)
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def _reader(url: URL) -> sa.Engine:
    if url.get_backend_name() == "postgresql":
        return connect(url)
    # The worker's engine makes the file and switches it to the write-ahead log.
    file = f"file:{quote(str(url.database))}?mode=ro"
    return sa.create_engine(
        "sqlite://",
        creator=lambda: sqlite3.connect(file, uri=True, timeout=_BUSY_S),
        poolclass=sa.pool.NullPool,
    )


def _now(connection: sa.Connection) -> datetime | None:
    if connection.dialect.name == "sqlite":
        connection.execute(sa.select(1)).scalar_one()
        return None
    now: datetime = connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
    return now.astimezone(UTC)
