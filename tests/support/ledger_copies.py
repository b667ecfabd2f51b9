"""New ledgers of the tests in this process are copies of one that the migrations have made.

To migrate an empty database takes a tenth of a second, and a test of the worker begins with one.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from uuid import uuid4

import sqlalchemy as sa


@contextmanager
def copied_ledgers(database: ModuleType, folder: Path) -> Iterator[None]:
    """Copy a ledger to where one is opened that is not there yet, on SQLite.

    Args:
        database: The module `gpu_core.adapters.ledger.database`.
        folder: Where the ledger is that is copied.
    """
    upgrade: Callable[[sa.Engine], None] = database.upgrade_to_head
    original = folder / "migrated.db"

    def upgrade_copy(writer: sa.Engine) -> None:
        path = Path(writer.url.database or "")
        if writer.dialect.name == "sqlite" and path != original and not path.exists():
            if not original.exists():
                database.LedgerDatabase.open(f"sqlite:///{original}").close()
            # In one step: another thread or process may make it at this moment.
            copy = path.with_name(f"{path.name}-{uuid4().hex}")
            shutil.copyfile(original, copy)
            with suppress(FileExistsError):
                os.link(copy, path)
            copy.unlink()
        upgrade(writer)

    database.upgrade_to_head = upgrade_copy
    try:
        yield
    finally:
        database.upgrade_to_head = upgrade
