"""Opening a ledger: addresses, migrations, several processes at once, and passwords."""

import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from gpu_core.adapters.ledger import Ledger, LedgerError, LedgerTooNew
from gpu_core.adapters.ledger.engine import connect, parse_url
from gpu_core.adapters.ledger.schema import metadata
from gpu_core.decisions.errors import InvalidInput
from tests.gpu_core.accounting_builders import admit, make_attempt, make_run

PASSWORD = "do-not-show-me"  # noqa: S105 - of nothing
_OPENERS = 4
_OPEN_WHEN_TOLD = """
import sys
from gpu_core.adapters.ledger import Ledger
print("ready", flush=True)
sys.stdin.readline()
Ledger.open(sys.argv[1]).close()
print("opened", flush=True)
"""


def test_the_migrations_make_the_tables_that_the_code_expects(ledger_url: str) -> None:
    Ledger.open(ledger_url).close()
    engine = sa.create_engine(parse_url(ledger_url))
    with engine.connect() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), metadata)
    engine.dispose()
    assert differences == []


def test_opening_again_keeps_what_is_there(ledger_url: str) -> None:
    with Ledger.open(ledger_url) as ledger:
        admit(ledger, make_attempt())
    with Ledger.open(ledger_url) as ledger:
        assert ledger.run("run-1") == make_run()


def test_processes_that_open_a_new_ledger_at_once_all_get_it(ledger_url: str) -> None:
    openers = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", _OPEN_WHEN_TOLD, ledger_url],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(_OPENERS)
    ]  # fmt: skip
    for opener in openers:
        assert opener.stdout is not None
        assert opener.stdout.readline() == "ready\n"
    for opener in openers:
        assert opener.stdin is not None
        opener.stdin.write("go\n")
        opener.stdin.flush()
    outcomes = [opener.communicate(timeout=60) for opener in openers]
    assert outcomes == [("opened\n", "")] * _OPENERS


def test_a_ledger_from_a_newer_version_is_refused_and_left_alone(ledger_url: str) -> None:
    Ledger.open(ledger_url).close()
    engine = sa.create_engine(parse_url(ledger_url))
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(LedgerTooNew, match=r"version '9999'.*upgrade prefect-gpu"):
        Ledger.open(ledger_url)
    with engine.connect() as connection:
        version = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
    engine.dispose()
    assert version == "9999"


def test_sqlite_writes_every_commit_to_the_disk(tmp_path: Path) -> None:
    engine = connect(parse_url(f"sqlite:///{tmp_path}/ledger.db"))
    with engine.connect() as connection:
        settings = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")
        }
    engine.dispose()
    full = 2
    want = {
        "journal_mode": "wal", "synchronous": full, "busy_timeout": 30_000, "foreign_keys": 1,
    }  # fmt: skip
    assert settings == want


@pytest.mark.parametrize(
    ("url", "want_problem"),
    [
        pytest.param("ledger.db", "is not a database address", id="a path"),
        pytest.param("mysql://me:do-not-show-me@db/x", "names another database", id="MySQL"),
        pytest.param("sqlite://", "names no file", id="SQLite in memory, by nothing"),
        pytest.param("sqlite:///:memory:", "names no file", id="SQLite in memory, by name"),
        pytest.param("me:do-not-show-me@db", "is not a database address", id="half an address"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_showing_the_password(
    url: str, want_problem: str
) -> None:
    with pytest.raises(InvalidInput, match=f"ledger url {want_problem}") as caught:
        Ledger.open(url)
    assert PASSWORD not in str(caught.value)
    assert "postgresql+psycopg://" in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql+psycopg://me:{PASSWORD}@127.0.0.1:1/ledger",
        f"postgresql+psycopg://127.0.0.1:1/ledger?user=me&password={PASSWORD}",
    ],
)
def test_an_unreachable_server_is_one_error_without_the_password(url: str) -> None:
    with pytest.raises(LedgerError, match=r"cannot open the ledger at .*127\.0\.0\.1") as caught:
        Ledger.open(url)
    assert PASSWORD not in str(caught.value)
    assert PASSWORD not in str(caught.value.__cause__)


def test_a_folder_that_cannot_be_made_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LedgerError, match="cannot open the ledger at sqlite"):
        Ledger.open(f"sqlite:///{tmp_path}/file/ledger.db")


def test_a_ledger_shows_itself_without_its_password(ledger: Ledger, ledger_url: str) -> None:
    assert PASSWORD not in repr(ledger)
    assert repr(ledger).startswith(f"Ledger('{ledger_url.partition(':')[0]}")
