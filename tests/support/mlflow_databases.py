"""New databases of MLflow on SQLite are copies of one that its migrations have made.

To migrate an empty database takes a second of a processor.
"""

import shutil
import sqlite3
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

from tests.support.made_once import made_once


def new_mlflow_database(folder: Path) -> str:
    """The address of a database in this folder, which is made where there is none.

    It has no experiment yet: MLflow makes its first one, with this folder's or this server's
    place of artifacts, when it opens the database.
    """
    path = folder / "mlflow.db"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made_once(Path("mlflow", version("mlflow")), path.name, _migrate), path)
    return f"sqlite:///{path}"


def _migrate(path: Path) -> None:
    from mlflow import MlflowClient

    migrated = path.with_name("migrated.db")
    MlflowClient(f"sqlite:///{migrated}").search_experiments()
    with closing(sqlite3.connect(migrated)) as connection:
        connection.execute("DELETE FROM experiments")
        connection.commit()
        connection.execute("VACUUM INTO ?", (str(path),))  # also what is in files beside it
