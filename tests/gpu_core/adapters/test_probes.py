"""Looks at stores that leave nothing behind: checkpoints, the ledger and MLflow."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import sqlalchemy as sa

from gpu_core.adapters.checkpoints.probe import probe_store
from gpu_core.adapters.checkpoints.store import LocalStore, StoreMisconfigured, StoreUnreachable
from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.engine import connect, parse_url
from gpu_core.adapters.ledger.errors import LedgerError
from gpu_core.adapters.ledger.inspection import inspect_ledger
from gpu_core.adapters.mlflow.probe import MlflowUnreachable, is_server, probe_mlflow
from gpu_core.decisions.costs.mlflow.mlflow_access import MlflowAccess
from gpu_core.decisions.model.redaction import basic_credentials
from tests.support.postgresql import new_database

HIDDEN = "hidden-word"

# -- checkpoints -------------------------------------------------------------------------------


def test_a_folder_that_works_is_as_it_was(tmp_path: Path) -> None:
    assert (probe_store(str(tmp_path)).free_bytes or 0) > 0
    assert list(tmp_path.iterdir()) == []


def test_a_bucket_that_works_is_as_it_was(s3_uri: str) -> None:
    assert probe_store(s3_uri).free_bytes is None


def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    assert not probe_store(str(tmp_path / "a" / "b")).is_there
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_keeps_nothing_is_refused(
    tmp_path: Path, s3_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    for uri in (str(tmp_path / "file"), str(tmp_path / "file" / "folder"), "s3://no-such-bucket/x"):
        with pytest.raises(StoreMisconfigured):
            probe_store(uri)
    monkeypatch.setattr(LocalStore, "get", lambda *_: b"other")
    with pytest.raises(StoreUnreachable, match="does not match the data written"):
        probe_store(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_object_that_could_not_be_read_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(LocalStore, "get", fail)
    with pytest.raises(StoreMisconfigured, match="Permission denied"):
        probe_store(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


# -- ledger ------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database that is new."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/folder/ledger.db"
    return new_database(request.getfixturevalue("postgresql"))


def test_an_empty_ledger_stays_empty(ledger_url: str, tmp_path: Path) -> None:
    found = inspect_ledger(ledger_url)
    assert found.version is None
    assert list(tmp_path.iterdir()) == []
    assert inspect_ledger(ledger_url).version is None


@pytest.mark.parametrize(
    ("version", "is_known"), [("0003", True), ("9999", False)], ids=["behind", "ahead"]
)
def test_another_version_is_seen_and_stays(ledger_url: str, version: str, is_known: bool) -> None:
    Ledger.open(ledger_url).close()
    assert inspect_ledger(ledger_url).version == inspect_ledger(ledger_url).newest
    engine = connect(parse_url(ledger_url))
    with engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE alembic_version SET version_num = :version"), {"version": version}
        )
    engine.dispose()
    for _ in range(2):
        found = inspect_ledger(ledger_url)
        assert (found.version, found.is_known) == (version, is_known)
    assert (found.clock is None) == ledger_url.startswith("sqlite")
    if found.clock is not None and found.clock.theirs is not None:
        assert abs((found.clock.theirs - found.clock.ours).total_seconds()) < 60


def test_a_ledger_that_cannot_be_read_is_one_sentence_without_its_password(
    tmp_path: Path, postgresql: str
) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(b"this is no database, and long enough to be looked at" * 40)
    with pytest.raises(LedgerError, match="file is not a database"):
        inspect_ledger(f"sqlite:///{path}")
    address = sa.make_url(postgresql).set(username="u", password=HIDDEN, database="x")
    with pytest.raises(LedgerError) as caught:
        inspect_ledger(address.render_as_string(hide_password=False))
    assert HIDDEN not in str(caught.value)


def test_a_ledger_that_is_written_to_can_be_read(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    Ledger.open(url).close()
    with sqlite3.connect(tmp_path / "ledger.db") as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert inspect_ledger(url).is_known
    writer.close()


# -- MLflow ------------------------------------------------------------------------------------


@contextmanager
def answering(status: int) -> Iterator[tuple[str, list[str | None]]]:
    """A server that answers everything so, and the credentials that it saw."""
    seen: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(self.headers.get("Authorization"))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("status", [200, 401, 404])
def test_mlflows_answer(status: int) -> None:
    with answering(status) as (address, seen):
        assert probe_mlflow(MlflowAccess.of(address)).status == status
        probe_mlflow(MlflowAccess.of(address, username="u", password=HIDDEN))
        probe_mlflow(MlflowAccess.of(address, token=HIDDEN))
    assert seen == [None, f"Basic {basic_credentials('u', HIDDEN)}", f"Bearer {HIDDEN}"]


@pytest.mark.parametrize("address", ["http://127.0.0.1:9", "http://127.0.0.1:bad"])
def test_no_mlflow(address: str) -> None:
    with pytest.raises(MlflowUnreachable, match="failed to connect to http://"):
        probe_mlflow(MlflowAccess.of(address))


def test_only_servers_are_asked() -> None:
    assert is_server(MlflowAccess.of("https://mlflow"))
    assert not is_server(MlflowAccess.of("sqlite:////m.db"))
