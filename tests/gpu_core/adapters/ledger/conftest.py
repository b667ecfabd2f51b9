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


@pytest.fixture(scope="module")
def one_ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ledger, Path]]:
    """A ledger for all examples: making one takes longer than all the rest."""
    path = tmp_path_factory.mktemp("ledger") / "ledger.db"
    with Ledger.open(f"sqlite:///{path}") as ledger:
        yield ledger, path
