"""Look at a ledger's database without changing it: no file, no table and no upgrade is made."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
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
from gpu_core.decisions.checks.doctor.clocks import ClockReading
from gpu_core.decisions.checks.doctor.services import LedgerProbe
from gpu_core.decisions.checks.prefect.pool_claim import PoolClaim

# Another process may write; doctor does not wait as long as a worker.
_BUSY_S = 2.0


def inspect_ledger(url: str) -> LedgerProbe:
    """The state of a ledger: whether it is there, and its version.

    Raises:
        InvalidInput: It is no address of a ledger.
        LedgerError: The database cannot be reached, or refuses.
    """
    parsed = parse_url(url)
    address = parsed.render_as_string(hide_password=True)
    scripts = ScriptDirectory(str(MIGRATIONS))
    newest = str(scripts.get_current_head())
    if parsed.get_backend_name() == "sqlite" and not Path(parsed.database or "").is_file():
        return LedgerProbe(address=address, version=None, newest=newest)
    try:
        with _reading(parsed) as connection:
            version = MigrationContext.configure(connection).get_current_revision()
            began_s = time.perf_counter()
            theirs = _now(connection)
            latency_s = time.perf_counter() - began_s
            ours = datetime.now(UTC)
    except (sa.exc.SQLAlchemyError, OSError) as error:
        raise _unreadable(address, error) from error
    clock = ClockReading(name="the ledger's database", theirs=theirs, ours=ours, error_s=latency_s)
    return LedgerProbe(
        address=address,
        version=version,
        newest=newest,
        is_known=version in {script.revision for script in scripts.walk_revisions()},
        latency_s=latency_s,
        clock=None if theirs is None else clock,
    )


def inspect_claim(url: str, pool_id: str) -> PoolClaim | None:
    """The installation that acts for this pool; None: none has claimed it in this ledger.

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
