"""An empty database for each test: always SQLite, and PostgreSQL where its server is installed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_core.adapters.ledger import Ledger
from tests.support.postgresql import new_database


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database that is new."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/folder/ledger.db"
    return new_database(request.getfixturevalue("postgresql"))


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    """An empty ledger."""
    with Ledger.open(ledger_url) as opened:
        yield opened
