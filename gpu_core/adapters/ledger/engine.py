"""Connections to the ledger's database: a SQLite file, or PostgreSQL for several machines."""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from gpu_core.decisions.model.errors import InvalidInput

# Without it a connection to a host that is silent waits for minutes.
_CONNECT_S = 10

# Well under the number of parameters that any SQLite accepts in one statement.
_IDS_PER_QUERY = 500

_FIELD = "ledger url"
_ALLOWED = "sqlite:////absolute/path/ledger.db or postgresql+psycopg://user:password@host:5432/name"
_SWITCH_RETRY_S = 0.02
_BUSY_TIMEOUT_MS = 30_000


def parse_url(url: str) -> URL:
    """The database that this address means.

    Raises:
        InvalidInput: Not an address, another database, or a SQLite database without a file.
            The text of the error never has the password in it.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # ValueError: of a port that is no number
        # The text is not shown: it may be a password with a typing error around it.
        raise InvalidInput(_FIELD, "is not a database address", allowed=_ALLOWED) from None
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite", "postgresql+psycopg"):
        shown = parsed.render_as_string(hide_password=True)
        raise InvalidInput(_FIELD, "names another database", got=shown, allowed=_ALLOWED)
    if parsed.get_backend_name() == "sqlite":
        return _with_absolute_file(parsed)
    return parsed


def _with_absolute_file(url: URL) -> URL:
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        raise InvalidInput(
            _FIELD,
            "does not specify a file, so its records would be lost when the process exits",
            got=str(url),
            allowed=_ALLOWED,
        )
    return url.set(database=str(Path(url.database).expanduser().absolute()))


def connect(url: URL) -> sa.Engine:
    """An engine for this address; for SQLite the file's folder is created.

    Raises:
        InvalidInput: PostgreSQL was asked for and its driver is not installed.
    """
    if url.get_backend_name() == "postgresql":
        return _postgresql_engine(url)
    assert url.database is not None  # noqa: S101 - parse_url has refused it
    Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = sa.create_engine(url, hide_parameters=True)
    sa.event.listen(engine, "connect", _configure_sqlite)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def writing(engine: sa.Engine) -> sa.Engine:
    """The same engine, whose transactions take SQLite's write lock when they begin.

    A transaction that reads first and asks for the lock later fails at once when another one
    wrote in between; one that asks first waits for its turn.
    """
    return engine.execution_options(sqlite_begin="BEGIN IMMEDIATE")


@contextmanager
def snapshot(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A transaction whose statements all see the database as the first one saw it."""
    if engine.dialect.name == "postgresql":  # SQLite's transactions are all like that
        engine = engine.execution_options(isolation_level="REPEATABLE READ")
    with engine.begin() as connection:
        yield connection


@contextmanager
def scan(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A transaction for statements over many rows."""
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            # Machine code for one of our statements takes 3 s to make, and saves less than 1 s.
            connection.exec_driver_sql("SET LOCAL jit = off")
        yield connection


def _postgresql_engine(url: URL) -> sa.Engine:
    try:
        return sa.create_engine(
            url,
            pool_pre_ping=True,
            hide_parameters=True,
            connect_args={} if "connect_timeout" in url.query else {"connect_timeout": _CONNECT_S},
        )
    except ModuleNotFoundError:
        raise InvalidInput(
            _FIELD,
            "needs the PostgreSQL driver",
            got=url.render_as_string(hide_password=True),
            remedy="run `pip install 'prefect-gpu[postgresql]'`",
        ) from None


def _configure_sqlite(connection: Any, _record: Any) -> None:
    # Python's own transaction control begins transactions late and not for every statement.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
    # Readers do not wait for the writer; every commit is on the disk before it returns.
    _use_write_ahead_log(cursor)
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _use_write_ahead_log(cursor: Any) -> None:
    """Switch a database to its write-ahead log, where it stays for good.

    The switch needs the file for itself and, unlike everything else, does not wait for it: of two
    processes that open a new database at the same moment one gets the error that it is locked.
    """
    deadline = time.monotonic() + _BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_SWITCH_RETRY_S)


def _begin_sqlite(connection: sa.Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("sqlite_begin", "BEGIN"))


def upsert(dialect: str) -> Any:
    """The `INSERT` of this database that has `ON CONFLICT`."""
    return postgresql.insert if dialect == "postgresql" else sqlite.insert


def chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """These ids in parts that fit in one statement."""
    return (ids[start : start + _IDS_PER_QUERY] for start in range(0, len(ids), _IDS_PER_QUERY))
