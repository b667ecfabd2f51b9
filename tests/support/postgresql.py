"""A real PostgreSQL server that lives as long as the tests, or the bench, that asked for it."""

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg

from gpu_core.cli.quickstart.services import free_port
from tests.support.tools import require

_UP_S = 240
# The tests kill servers, never their machine: what a killed server has written, the kernel keeps.
# Waiting for a disk would measure this machine's, which the servers and stories beside it share.
_NO_POWER_CUT = ("-c", "fsync=off", "-c", "full_page_writes=off")


def find_postgresql() -> Path | None:
    """Where are the server's programs? None where this user could not run them."""
    on_path = shutil.which("initdb")
    folders = [Path(on_path).resolve().parent] if on_path else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = (f for f in folders if (f / "initdb").exists() and (f / "postgres").exists())
    return next(found, None) if _can_run() else None


class PostgresqlServer:
    """A server with a data folder of its own, which tests may stop and start again.

    Args:
        binaries: Where its programs are.
        folder: Where its data, its socket and its log are.
        password: Of its user `postgres`.
        owner: Whose processes it consists of, for `subprocess`.
    """

    def __init__(
        self, binaries: Path, folder: Path, password: str, owner: Mapping[str, str]
    ) -> None:
        self._binaries = binaries
        self._folder = folder
        self._owner = owner
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.address = f"postgresql://postgres:{password}@127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it at its address; returns when it answers."""
        with (self._folder / "log").open("a") as log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self._folder / "data", "-p", str(self._port),
                 "-k", self._folder, "-c", "listen_addresses=127.0.0.1", *_NO_POWER_CUT],
                stdout=log, stderr=log, **self._owner,
            )  # fmt: skip
        _wait_until_up(self._process, self.address, self._folder / "log")

    def stop(self) -> None:
        """Stop it; its clients, some of which were killed, are not waited for."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(_UP_S)
            self._process = None


@contextmanager
def stoppable_postgresql() -> Iterator[PostgresqlServer]:
    """Run an empty server on a free loopback port.

    Without its programs the test is skipped, or fails where everything is required.
    """
    binaries = require(find_postgresql(), "a PostgreSQL server")
    folder = Path(tempfile.mkdtemp(prefix="postgresql-"))
    owner = _unprivileged(folder)
    # A story that looks for its server's password in all processes finds no other server's.
    password = f"do-not-show-{secrets.token_hex(8)}"
    try:
        _initialize(binaries, folder, password, owner)
        server = PostgresqlServer(binaries, folder, password, owner)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        # A server that was killed takes its last files away a moment later.
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def postgresql_server() -> Iterator[str]:
    """Run an empty server; its address without a database's name."""
    with stoppable_postgresql() as server:
        yield server.address


def new_database(address: str) -> str:
    """Create an empty database on the server at this address; the database's own address."""
    name = f"test_{secrets.token_hex(6)}"
    with closing(psycopg.connect(f"{address}/postgres", autocommit=True)) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"{address}/{name}"


def _can_run() -> bool:
    """PostgreSQL refuses to run as root; it then runs as the user that its package made."""
    if os.geteuid() != 0:
        return True
    return any(entry.pw_name == "postgres" for entry in pwd.getpwall())


def _unprivileged(folder: Path) -> dict[str, str]:
    if os.geteuid() != 0:
        return {}
    shutil.chown(folder, "postgres", "postgres")
    return {"user": "postgres", "group": "postgres"}


def _initialize(binaries: Path, folder: Path, password: str, owner: dict[str, str]) -> None:
    password_file = folder / "password"
    password_file.write_text(password)
    password_file.chmod(0o644)
    subprocess.run(
        [binaries / "initdb", "-D", folder / "data", "-U", "postgres", "-A", "scram-sha-256",
         "--pwfile", password_file, "-E", "UTF8", "--locale=C", "--no-sync"],
        check=True, capture_output=True, cwd=folder, **owner,
    )  # fmt: skip


def _wait_until_up(server: subprocess.Popen[bytes], address: str, log: Path) -> None:
    deadline = time.monotonic() + _UP_S
    while True:
        try:
            psycopg.connect(f"{address}/postgres").close()
        except psycopg.OperationalError:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        else:
            return
