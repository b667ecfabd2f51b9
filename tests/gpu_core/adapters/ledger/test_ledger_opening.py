"""Opening a ledger: addresses, migrations, several processes at once, and passwords."""

import errno
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from gpu_core.adapters.ledger import Ledger, LedgerError, LedgerRefused, LedgerTooNew
from gpu_core.adapters.ledger.engine import connect, parse_url
from gpu_core.adapters.ledger.outages import is_refusal
from gpu_core.adapters.ledger.schema import metadata
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.testing.builders.attempts import NOON, admit, at, make_attempt, make_run

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


def test_an_upgrade_takes_no_planned_node_for_a_certain_one(ledger_url: str) -> None:
    """Of an open attempt in a cluster its pods have to say it; processes are where they began."""
    in_cluster = make_attempt("cluster", infrastructure="ml:job")
    process = make_attempt("process", pid=7, started_at=at(1))
    over = make_attempt("over", pid=8, started_at=at(1))
    with Ledger.open(ledger_url) as ledger:
        for attempt in (in_cluster, process, over):
            admit(ledger, attempt)
        ledger.close_attempt(
            *(over.attempt_id,),
            released_at=at(2),
            end_reason=EndReason.COMPLETED,
            end_message=None,
            exit_code=0,
            is_charged_failure=False,
        )
    engine = sa.create_engine(parse_url(ledger_url))
    with engine.begin() as connection:
        for column in ("bound_at", "gone_at", "exit", "saves", "save_stall_s"):
            connection.execute(sa.text(f"ALTER TABLE attempts DROP COLUMN {column}"))
        connection.execute(sa.text("DROP TABLE purged_policies"))
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0020'"))
    engine.dispose()
    with Ledger.open(ledger_url) as ledger:
        opened = {a.flow_run_id: a.bound_at for a in ledger.open_attempts("gpus", "host-1")}
        ((closed,),) = ledger.attempts_of(["over"]).values()
    assert opened == {"cluster": None, "process": NOON}
    assert closed.bound_at is None


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
    outcomes = [opener.communicate() for opener in openers]
    assert outcomes == [("opened\n", "")] * _OPENERS


def test_a_ledger_from_a_newer_version_is_refused_and_left_alone(ledger_url: str) -> None:
    Ledger.open(ledger_url).close()
    engine = sa.create_engine(parse_url(ledger_url))
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(LedgerTooNew, match=r"version '9999'.*Please upgrade prefect-gpu"):
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
        pytest.param("sqlite://", "does not specify a file", id="SQLite in memory"),
        pytest.param("sqlite:///:memory:", "does not specify a file", id="SQLite :memory:"),
        pytest.param("me:do-not-show-me@db", "is not a database address", id="half an address"),
        pytest.param(
            "postgresql://me:do-not-show-me@db:54x2/x", "is not a database address", id="a port"
        ),
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


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("file/ledger.db", id="in a file"),
        pytest.param("folder", id="a folder"),
        pytest.param("file", id="a file of another kind"),
    ],
)
def test_a_file_that_no_ledger_can_be_is_refused_for_good(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_text("in the way " * 100)
    (tmp_path / "folder").mkdir()
    with pytest.raises(LedgerRefused, match="cannot open the ledger at sqlite"):
        Ledger.open(f"sqlite:///{tmp_path}/{path}")


@pytest.mark.postgresql
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("do-not-show-", "another-secret-", id="a wrong password"),
        pytest.param("postgres:", "nobody-known:", id="an unknown user"),
        pytest.param("", "/no-such-database", id="an unknown database"),
    ],
)
def test_what_postgresql_refuses_is_refused_for_good(
    postgresql: str, before: str, after: str
) -> None:
    head, at, host = postgresql.rpartition("@")
    wrong = head.replace(before, after, 1) + at + host if before else f"{postgresql}{after}"
    with pytest.raises(LedgerRefused, match="cannot open the ledger at postgresql") as caught:
        Ledger.open(wrong)
    assert str(urlsplit(postgresql).password) not in str(caught.value)
    assert "another-secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "want"),
    [
        pytest.param(OSError(errno.ENOSPC, "No space left on device"), False, id="a full disk"),
        pytest.param(OSError(errno.EIO, "Input/output error"), False, id="a disk that fails"),
        pytest.param(OSError(errno.EACCES, "Permission denied"), True, id="no right"),
        pytest.param(OSError(errno.EROFS, "Read-only file system"), True, id="a read-only disk"),
        pytest.param(Exception("FATAL:  the database system is starting up"), False, id="starting"),
        pytest.param(Exception("FATAL:  sorry, too many clients already"), False, id="busy"),
        pytest.param(Exception("connection failed: Connection refused"), False, id="away"),
        pytest.param(Exception("failed to resolve host 'db'"), False, id="no name service"),
        pytest.param(Exception("fe_sendauth: no password supplied"), True, id="no password"),
        pytest.param(Exception("FATAL:  no pg_hba.conf entry for host"), True, id="no entry"),
    ],
)
def test_only_what_a_person_must_change_is_a_refusal(error: Exception, want: bool) -> None:
    assert is_refusal(error) is want


def test_a_folder_that_cannot_be_made_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LedgerError, match="cannot open the ledger at sqlite"):
        Ledger.open(f"sqlite:///{tmp_path}/file/ledger.db")


def test_a_ledger_shows_itself_without_its_password(ledger: Ledger, ledger_url: str) -> None:
    assert PASSWORD not in repr(ledger)
    assert repr(ledger).startswith(f"Ledger('{ledger_url.partition(':')[0]}")
