"""A new database has what MLflow's migrations make, and only the experiment that MLflow adds."""

import sqlite3
from contextlib import closing
from pathlib import Path

from mlflow import MlflowClient

from tests.support.mlflow_databases import new_mlflow_database


def columns(path: Path) -> set[tuple[str, str, str]]:
    """Of each table its columns and their types; the order of values in a check is random."""
    question = (
        "SELECT tables.name, columns.name, columns.type"
        " FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns"
    )
    with closing(sqlite3.connect(path)) as connection:
        return set(connection.execute(question))


def test_new_ones_are_migrated_and_empty_and_what_is_there_stays(tmp_path: Path) -> None:
    first, second = (new_mlflow_database(tmp_path / name) for name in ("first", "second"))
    client = MlflowClient(first)
    assert [each.name for each in client.search_experiments()] == ["Default"]
    client.create_experiment("digits")
    assert [each.name for each in MlflowClient(second).search_experiments()] == ["Default"]

    assert new_mlflow_database(tmp_path / "first") == first
    assert client.get_experiment_by_name("digits") is not None

    of_mlflow = tmp_path / "of mlflow.db"
    MlflowClient(f"sqlite:///{of_mlflow}").search_experiments()
    assert columns(tmp_path / "first" / "mlflow.db") == columns(of_mlflow)
