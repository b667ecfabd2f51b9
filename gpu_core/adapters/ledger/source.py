"""A ledger that people name: by its file, or by its address. Reading one never creates one."""

from pathlib import Path

from gpu_core.adapters.files.text_file import is_file
from gpu_core.adapters.ledger.errors import LedgerRefused
from gpu_core.adapters.ledger.inspection import inspect_ledger
from gpu_core.adapters.ledger.store import Ledger
from gpu_core.decisions.model.errors import InvalidInput

_REMEDY = "name the ledger's file, or its address such as postgresql+psycopg://USER@HOST/DATABASE"
_SQLITE_FILE = "sqlite:///"
_SQLITE = b"SQLite format 3\0"
"""The first bytes of such a file (the SQLite file format, 1.3)."""


def _existing_url(source: str) -> str:
    """The address of this ledger.

    Args:
        source: A SQLite file's path, or the ledger's address.

    Raises:
        InvalidInput: There is no such file, or it is no SQLite database.
    """
    if "://" in source and not source.startswith(_SQLITE_FILE):
        return source
    path = Path(source.removeprefix(_SQLITE_FILE))
    # Opening a ledger creates it; a misspelled path must not.
    if not is_file(path):
        raise InvalidInput("ledger", "is not a file", got=source, remedy=_REMEDY)
    with path.open("rb") as file:
        if file.read(len(_SQLITE)) != _SQLITE:
            raise InvalidInput("ledger", "is not an SQLite database", got=source, remedy=_REMEDY)
    return f"{_SQLITE_FILE}{path.resolve()}"


def open_to_read(source: str) -> Ledger:
    """Open a ledger that exists, without upgrading it under the workers that write it.

    Raises:
        InvalidInput: There is no such file, or the address cannot be used.
        LedgerRefused: It is of another version.
        LedgerError: It cannot be read.
    """
    url = _existing_url(source)
    found = inspect_ledger(url)
    if found.version != found.newest:
        raise LedgerRefused(
            f"the ledger is of version {found.version or 'none'}, and this command reads "
            f"{found.newest}. Start a worker of this release to upgrade it."
        )
    ledger = Ledger.open(url)
    ledger.name_errors()
    return ledger
