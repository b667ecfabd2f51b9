"""New databases of the tests' Prefect servers are copies of one that the migrations have made.

To migrate an empty database takes seven seconds of a processor, and each tier starts some servers.
A server that starts brings a copy up to date as any other database.
"""

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.made_once import made_once
from tests.support.postgresql import find_postgresql, new_database
from tests.support.preloaded import run

_URL = "PREFECT_SERVER_DATABASE_CONNECTION_URL"


def new_sqlite_database(path: Path) -> None:
    """Put a migrated database here, where none is."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_made_once("sqlite.db", _migrate_sqlite), path)


def new_postgresql_database(address: str) -> str:
    """Create a migrated database on the server at this address; the database's own address."""
    programs = find_postgresql()
    assert programs is not None, "the server runs"

    def migrate(dump: Path) -> None:
        migrated = new_database(address)
        _migrate(migrated.replace("postgresql:", "postgresql+asyncpg:", 1), dump.parent)
        _call([programs / "pg_dump", "--no-owner", f"--file={dump}"], migrated)

    name = f"postgresql-{programs.parent.name}.sql"
    dump = _made_once(name, migrate)
    created = new_database(address)
    _call([programs / "psql", "--quiet", "--set=ON_ERROR_STOP=1", f"--file={dump}"], created)
    return created


@contextmanager
def harness_on_copies() -> Iterator[None]:
    """Let the database of `prefect_test_harness` be a copy, too."""
    from prefect.server.api.server import SubprocessASGIServer
    from prefect.settings import PREFECT_SERVER_DATABASE_CONNECTION_URL

    start = SubprocessASGIServer.start

    def start_on_copy(server: SubprocessASGIServer, timeout: int | None = None) -> None:
        url = PREFECT_SERVER_DATABASE_CONNECTION_URL.value()
        new_sqlite_database(Path(url.removeprefix("sqlite+aiosqlite:///")))
        start(server, timeout)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SubprocessASGIServer, "start", start_on_copy)
        yield


def _migrate_sqlite(path: Path) -> None:
    migrated = path.with_name("migrated.db")
    _migrate(f"sqlite+aiosqlite:///{migrated}", path.parent)
    with closing(sqlite3.connect(migrated)) as connection:
        connection.execute("VACUUM INTO ?", (str(path),))  # also what is in files beside it


def _migrate(url: str, folder: Path) -> None:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    environment = ours | {"PREFECT_HOME": str(folder / "home"), _URL: url}
    done = run("prefect", ["server", "database", "upgrade", "--yes"], environment, folder)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def _made_once(name: str, make: Callable[[Path], None]) -> Path:
    """The file of this name, for this release of Prefect."""
    return made_once(Path("prefect", version("prefect")), name, make)


def _call(command: list[Path | str], database: str) -> None:
    """A program of PostgreSQL, which finds the password in its environment."""
    place = urlsplit(database)
    environment = {
        **os.environ,
        "PGHOST": place.hostname or "",
        "PGPORT": str(place.port),
        "PGUSER": place.username or "",
        "PGPASSWORD": place.password or "",
        "PGDATABASE": place.path.removeprefix("/"),
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
