"""A new database has what Prefect's migrations make, and nothing in it."""

import sqlite3
from contextlib import closing

import psycopg

from tests.support.prefect_databases import new_postgresql_database, new_sqlite_database

QUESTION = "SELECT (SELECT count(*) FROM alembic_version), (SELECT count(*) FROM flow_run)"


def test_new_ones_are_migrated_and_empty_and_what_is_there_stays(postgresql, tmp_path):
    first, second = (new_postgresql_database(postgresql) for _ in range(2))
    assert first != second
    for address in (first, second):
        with closing(psycopg.connect(address)) as connection:
            assert connection.execute(QUESTION).fetchone() == (1, 0)

    path = tmp_path / "home" / "prefect.db"
    new_sqlite_database(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(QUESTION).fetchone() == (1, 0)
        connection.execute("CREATE TABLE of_a_server (id)")

    new_sqlite_database(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM of_a_server").fetchone() == (0,)
