"""Bring a ledger's database to the version of this code, however many processes try at once."""

import threading
from functools import cache
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from gpu_core.adapters.ledger.errors import LedgerTooNew

MIGRATIONS = Path(__file__).parent / "migrations"

# "prefect-gpu" distinguished from other users of PostgreSQL's advisory locks; any constant does.
_POSTGRESQL_LOCK = 0x70_67_70_75

# Alembic's environment is one object for the whole process.
_one_at_a_time = threading.Lock()


def upgrade_to_head(writer: sa.Engine) -> None:
    """Create the tables, or change them to what this code expects; do nothing if they are.

    Everything happens in one transaction under the database's own lock: a process that is killed
    half way leaves the old version, a second process waits and then finds the work done.

    Args:
        writer: An engine whose transactions take SQLite's write lock at their beginning.

    Raises:
        LedgerTooNew: The database has a version that this code has never heard of.
    """
    with _one_at_a_time, writer.begin() as connection:
        scripts = _scripts()
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_POSTGRESQL_LOCK)))
        version = MigrationContext.configure(connection).get_current_revision()
        if version == scripts.get_current_head():
            return
        _refuse_newer(version, scripts)
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
        command.upgrade(config, "head")


@cache
def _scripts() -> ScriptDirectory:
    """The migrations of this code, which are read once."""
    return ScriptDirectory(str(MIGRATIONS))


def _refuse_newer(version: str | None, scripts: ScriptDirectory) -> None:
    known = {script.revision for script in scripts.walk_revisions()}
    if version is None or version in known:
        return
    raise LedgerTooNew(
        f"the ledger's database has version {version!r}, but this prefect-gpu knows "
        f"versions up to {scripts.get_current_head()!r}. Please upgrade prefect-gpu on this "
        "machine. No changes were made."
    )
